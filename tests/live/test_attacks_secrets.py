"""Attacks on the service's secrets: what a reader of the database or its folder, and a change of the secret, can do."""

import base64
import hashlib
import os
import shutil
import sqlite3
import stat
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from http_service import API, check_refusal, serving
from make_pinned_database import SECRET as PINNED_SECRET
from make_pinned_database import shown as pinned_lists
from stored_secrets import HALF, ONE, PINNED, THREE, TWO, click, opened, show

from multileave.live.access.secret_file import SecretFile
from multileave.live.access.tokens import ImpressionToken, Signer, derived_hashing_keys
from multileave.live.errors import Invalid
from multileave.live.settings import Settings
from multileave.live.store.database import Store
from multileave.live.store.secrets import load_hashing_keys
from multileave.live.store.tables import secrets


def contents(address):
    """Everything that is stored, as bytes: what somebody has who stole the database."""
    if address.startswith("sqlite"):
        path = Path(address.removeprefix("sqlite:///"))
        return b"".join(found.read_bytes() for found in sorted(path.parent.glob(path.name + "*")) if is_data(found))
    store = Store(address)
    with store.read() as connection:
        tables = sa.inspect(connection).get_table_names()
        found = [repr(connection.execute(sa.text(f"SELECT * FROM {name}")).all()) for name in tables]
    store.close()
    return "\n".join(found).encode()


def is_data(path):
    return not path.name.endswith(".secret")


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


# The contents


def test_a_stolen_database_holds_no_key_no_cookie_no_form_token_and_no_secret(address, tmp_path):
    with serving(address, **({} if address.startswith("sqlite") else {"secret": ONE})) as served:
        access = served.app.state.service.access
        key = access.authenticate(served.keys["admin"])
        cookie = access.open_session(key)
        assert access.session(cookie) == key
        stolen = contents(address)
        signing = [ONE] if not address.startswith("sqlite") else SecretFile(tmp_path / "store.db.secret").read()
        for hidden in (*served.keys.values(), cookie, access.csrf(cookie), *signing):
            assert hidden.encode() not in stolen
        assert hashlib.sha256(cookie.encode()).hexdigest() not in (cookie, access.csrf(cookie))


def test_cookies_made_from_what_is_stored_open_no_page(sqlite_address, tmp_path):
    with serving(sqlite_address) as served:
        access = served.app.state.service.access
        access.open_session(access.authenticate(served.keys["admin"]))
        with sqlite3.connect(tmp_path / "store.db") as stolen:
            texts = [str(value) for (value,) in stolen.execute("SELECT value FROM secrets")]
            hashes = [raw.hex() for (raw,) in stolen.execute("SELECT hash FROM sessions")]
            hashes += [raw.hex() for (raw,) in stolen.execute("SELECT hash FROM api_keys")]
        forged = [*texts, *hashes]
        for text in texts:
            derived = hashlib.blake2b(text.encode(), digest_size=32, person=b"session").digest()
            body = f"3.{2**60}.nonce"
            forged.append(f"{body}.{hashlib.blake2b(body.encode(), key=derived, digest_size=16).hexdigest()}")
        assert len(forged) >= 8
        for cookie in forged:
            served.client.cookies.set("multileave_session", cookie)
            assert served.client.get("/keys", follow_redirects=False).status_code == 303
            check_refusal(served.client.get(f"{API}/keys", headers={"Authorization": f"Bearer {cookie}"}), 401)


def test_impressions_signed_with_what_is_stored_are_unknown(sqlite_address, tmp_path):
    service = opened(sqlite_address)
    number = service.create(HALF.changed(share=1.0)).number
    service.start(number)
    show(service, number, "u")
    with sqlite3.connect(tmp_path / "store.db") as stolen:
        (key,) = stolen.execute("SELECT id FROM impressions").fetchone()
        texts = [value for (value,) in stolen.execute("SELECT value FROM secrets")]
    assert texts
    for text in texts:
        forged = Signer([text], {}).impression(ImpressionToken(key, number, 2**60))
        assert click(service, forged).code == "unknown_impression"
    service.close()


# The move from the first version


def first_version(folder, secret=None):
    """A database as the first version left it, with the secret inside if it had none from outside."""
    path = folder / "store.db"
    shutil.copy(PINNED, path)
    if secret is not None:
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("INSERT INTO secrets VALUES ('service', ?)", (secret,))
        connection.commit()
        connection.close()
    return f"sqlite:///{path}"


PIECES = [f"piece-{n:03d}-of-the-secret" for n in range(80)]


def test_no_piece_of_a_moved_secret_stays_in_free_space_or_in_the_journal_of_a_process_that_was_killed(tmp_path):
    (tmp_path / "before").mkdir()
    first_version(tmp_path / "before")
    connection = sqlite3.connect(tmp_path / "before" / "store.db")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("INSERT INTO secrets VALUES ('service', ?)", ("".join(PIECES),))
    connection.commit()
    for ending in ("", "-wal"):  # as a kill would leave them
        shutil.copy(tmp_path / "before" / f"store.db{ending}", tmp_path / f"store.db{ending}")
    connection.close()
    address = f"sqlite:///{tmp_path}/store.db"
    assert PIECES[40].encode() in contents(address)
    service = opened(address)
    assert [piece for piece in PIECES if piece.encode() in contents(address)] == []
    service.close()


def old_impression(service, secret):
    """An impression id as the first version gave it out, without the id of its key."""
    found = service.recent(1)[0].key
    body = struct.pack(">16sIq", bytes.fromhex(found), 1, 2**60)
    derived = hashlib.blake2b(secret.encode(), digest_size=32, person=b"impression").digest()
    signature = hashlib.blake2b(body, key=derived, digest_size=16).digest()
    return base64.urlsafe_b64encode(body + signature).rstrip(b"=").decode()


def test_the_secret_of_an_old_database_moves_to_the_file_and_out_of_every_page(tmp_path):
    address = first_version(tmp_path, PINNED_SECRET)
    service = opened(address)
    assert PINNED_SECRET.encode() not in contents(address)
    assert SecretFile(tmp_path / "store.db.secret").read() == (PINNED_SECRET,)
    assert click(service, old_impression(service, PINNED_SECRET)).accepted
    service.close()
    assert PINNED_SECRET.encode() not in contents(address)
    again = opened(address)
    assert click(again, old_impression(again, PINNED_SECRET)).accepted
    assert not click(again, old_impression(again, ONE)).accepted
    again.close()


def test_a_move_that_was_interrupted_is_finished_and_loses_no_secret(tmp_path):
    address = first_version(tmp_path, PINNED_SECRET)
    SecretFile(tmp_path / "store.db.secret").write((ONE,))
    service = opened(address)
    assert SecretFile(tmp_path / "store.db.secret").read() == (ONE, PINNED_SECRET)
    assert PINNED_SECRET.encode() not in contents(address)
    assert click(service, old_impression(service, PINNED_SECRET)).accepted
    service.close()


def test_an_old_database_draws_the_same_lists_whatever_the_secret_becomes(tmp_path):
    address = first_version(tmp_path)
    first = opened(address, secret=PINNED_SECRET)
    expected, stored = pinned_lists(first), len(first.recent(1, 500))
    first.close()
    for secret in (ONE, TWO):
        again = opened(address, secret=secret)
        assert pinned_lists(again) == expected
        assert len(again.recent(1, 500)) == stored  # the same requests are the same impressions
        again.close()


def test_an_old_database_whose_secret_came_from_outside_is_not_opened_without_it(tmp_path):
    address = first_version(tmp_path)
    with pytest.raises(Invalid, match="MULTILEAVE_SECRET"):
        opened(address)
    assert not (tmp_path / "store.db.secret").exists()
    opened(address, secret=PINNED_SECRET).close()
    opened(address).close()


def test_an_old_database_of_either_kind_gets_the_keys_that_followed_from_its_secret(address, tmp_path):
    service = opened(address, secret=ONE)
    service.create(HALF)
    service.close()
    store = Store(address)
    with store.write() as connection:  # as the first version left it
        connection.execute(sa.delete(secrets))
        connection.execute(sa.insert(secrets), {"name": "service", "value": TWO})
    opened(address).close()
    with store.read() as connection:
        assert load_hashing_keys(connection) == derived_hashing_keys(TWO)
        names = set(connection.execute(sa.select(secrets.c.name)).scalars())
    assert names - {"unit", "traffic", "rankings"} == (set() if address.startswith("sqlite") else {"service"})
    opened(address, secret=THREE).close()
    with store.read() as connection:
        assert load_hashing_keys(connection) == derived_hashing_keys(TWO)
    store.close()


def test_a_new_database_gets_random_keys_and_workers_that_start_together_agree(address):
    def start(_):
        service = opened(address)
        found = service._signer.unit("u"), service._signer._id
        service.close()
        return found

    Store(address).close()
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(start, range(8)))
    assert len(found) == 1
    assert opened_units(address, ONE) == opened_units(address, TWO) == found.pop()[0]
    assert derived_hashing_keys(ONE)["unit"] != derived_hashing_keys(TWO)["unit"]


def opened_units(address, secret):
    service = opened(address, secret=secret)
    service.close()
    return service._signer.unit("u")


# Rotation


@pytest.fixture
def users(address):
    """A running experiment on half of the traffic, and what 100 users saw of it."""
    service = opened(address, secret=ONE)
    number = service.create(HALF).number
    service.start(number)
    seen = {f"user-{n}": show(service, number, f"user-{n}") for n in range(100)}
    service.close()
    assert 30 < sum(one.recorded for one in seen.values()) < 70
    return address, number, seen


def test_another_secret_changes_nobodys_group_or_list(users):
    address, number, seen = users
    service = opened(address, secret=TWO)
    for unit, before in seen.items():
        after = show(service, number, unit)
        assert (after.recorded, after.shown) == (before.recorded, before.shown)
    assert len(service.recent(number, 500)) == sum(one.recorded for one in seen.values())
    service.close()


def test_a_unit_is_deleted_completely_after_another_secret(users):
    address, number, seen = users
    service = opened(address, secret=TWO)
    service.fold()
    assert sum(service.delete_unit(unit) for unit in seen) == sum(one.recorded for one in seen.values())
    assert service.recent(number) == []
    assert service.report(number).traffic.units == 0
    service.close()


def test_impression_ids_stay_valid_only_if_the_old_secret_is_kept(users):
    address, _, seen = users
    impression = next(one.impression for one in seen.values() if one.impression)
    for settings, accepted in (
        ({"secret": TWO}, False),
        ({"secret": TWO, "old_secrets": (THREE,)}, False),
        ({"secret": TWO, "old_secrets": (THREE, ONE)}, True),
        ({"secret": ONE}, True),
    ):
        service = opened(address, **settings)
        assert click(service, impression).accepted is accepted
        service.close()


def test_old_secrets_are_read_from_the_environment_in_every_spelling():
    for text in (f"{'x' * 16} {'y' * 16}", f"{'x' * 16},{'y' * 16}", f" {'x' * 16},\n{'y' * 16} "):
        assert Settings.from_environment({"MULTILEAVE_OLD_SECRETS": text}).old_secrets == ("x" * 16, "y" * 16)
    for text in ("", " , "):
        assert Settings.from_environment({"MULTILEAVE_OLD_SECRETS": text}).old_secrets == ()
    kept = Settings(old_secrets=(ONE, "comma, and [brackets] in it"))
    assert Settings.from_environment(kept.to_environment()) == kept
    for wrong in ("short", f"{'x' * 16},short", '["short-short', " ".join("x" * 16 for _ in range(50))):
        with pytest.raises(Invalid, match="old secret") as raised:
            Settings.from_environment({"MULTILEAVE_OLD_SECRETS": wrong})
        assert "short-short" not in str(raised.value)
        assert "xxx" not in str(raised.value)
    assert "hidden" not in repr(Settings(secret="hidden" * 4, old_secrets=("hidden" * 4,)))


def test_the_file_is_rotated_and_ids_of_before_stay_valid_until_they_are_dropped(sqlite_address, tmp_path):
    file = SecretFile(tmp_path / "store.db.secret")
    service = opened(sqlite_address)
    number = service.create(HALF.changed(share=1.0)).number
    service.start(number)
    before = show(service, number, "u").impression
    service.close()
    (first,) = file.read()
    file.rotate(keep=None)
    assert len(file.read()) == 2
    assert file.read()[1] == first != file.read()[0]
    assert mode(file.path) == 0o600
    assert not list(tmp_path.glob("*.part*"))
    service = opened(sqlite_address)
    assert click(service, before).accepted
    after = show(service, number, "another").impression
    service.close()
    file.rotate(keep=1)
    service = opened(sqlite_address)
    assert not click(service, before).accepted
    assert click(service, after).accepted
    service.close()
    file.rotate(keep=0)
    service = opened(sqlite_address)
    assert not click(service, after).accepted
    service.close()


def test_a_token_is_bound_to_the_id_of_its_key_and_has_a_bounded_length():
    signer = Signer([ONE, TWO], {})
    token = ImpressionToken(b"k" * 16, 3, 17)
    text = signer.impression(token)
    assert signer.read_impression(text) == token
    assert Signer([TWO, ONE], {}).read_impression(text) == token
    assert Signer([TWO], {}).read_impression(text) is None
    raw = base64.urlsafe_b64decode(text)
    other = base64.urlsafe_b64decode(Signer([TWO], {}).impression(token))
    for wrong in (raw[4:], other[:4] + raw[4:], b"\0" * 4 + raw[4:], raw + b"\0", raw[:-1], b"", raw * 2):
        assert signer.read_impression(base64.urlsafe_b64encode(wrong).decode()) is None
    assert len(text) <= 80
    assert signer.read_impression("A" * 10**6) is None
    assert signer.read_impression("\ud800" * 64) is None


@pytest.mark.acceptance
def test_postgres_says_that_readers_of_the_database_can_report_clicks(postgres_address):
    service = opened(postgres_address)
    service.close()
    assert "set MULTILEAVE_SECRET" in " ".join(service.warnings)
    service = opened(postgres_address, secret=ONE)
    service.close()
    assert service.warnings == ()
