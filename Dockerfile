# The service. Build: docker build -t multileave .   Run: see compose.yaml, or
# docker run -p 127.0.0.1:8421:8421 -e MULTILEAVE_SECRET=... -v multileave:/data multileave
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
RUN python -m venv /opt/multileave \
    && /opt/multileave/bin/pip install --no-cache-dir '.[live]'

FROM python:3.12-slim
COPY --from=build /opt/multileave /opt/multileave
RUN useradd --system --uid 10001 --create-home multileave \
    && install -d -o multileave /data
ENV PATH=/opt/multileave/bin:$PATH \
    MULTILEAVE_DB=sqlite:////data/multileave.db \
    MULTILEAVE_HOST=0.0.0.0
USER 10001
# All methods are compiled once, here, and not when an experiment with one of them is created.
RUN python -m multileave.live.compilation
WORKDIR /data
VOLUME /data
EXPOSE 8421
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8421/readyz', timeout=2)"]
CMD ["multileave", "serve"]
