// Browsers start no workers for pages opened from a folder, and the site's search is a worker. For such pages a
// hidden frame runs the worker's script instead, and messages are passed as events.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      const load = (script) =>
        new Promise((done, fail) => {
          const element = inner.document.createElement("script");
          element.src = script;
          element.onload = done;
          element.onerror = fail;
          inner.document.body.appendChild(element);
        });
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inner.importScripts = (...scripts) => scripts.reduce((before, one) => before.then(() => load(one)), Promise.resolve());
      this.ready = load(new URL(address, document.baseURI).href);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
  window.Worker = window.IFrameWorker;
}
