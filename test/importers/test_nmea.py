"""Logs of NMEA 0183 as loggers write them: each sounding at its place and time, or none."""

import functools
from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from nmea_sentences import sentence, spelt

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import find_reader, read_soundings

pytest.importorskip("pynmeagps")

COUNT = 200
BEGIN = datetime(2025, 6, 1, 10, 0, 0, tzinfo=timezone.utc)
NIGHT = datetime(2025, 6, 1, 23, 58, 20, tzinfo=timezone.utc)
INDEX = np.arange(COUNT)
LATITUDE, LONGITUDE = 53.1 + 2e-5 * INDEX, -8.6 + 4e-5 * np.sin(INDEX / 20)
#: A depth of its own for each, so that a sounding is known by its depth.
DEPTH = np.round(5.0 + 0.01 * (INDEX * 77 % COUNT), 2)


def place(i, north=0.0):
    """``north``: so many metres beside it."""
    return f"{spelt(LATITUDE[i] + north / 111_320, 'NS')},{spelt(LONGITUDE[i], 'EW')}"


def gga(i, when, talker="GP", quality=1, north=0.0):
    where = place(i, north)
    return sentence(f"{talker}GGA,{when:%H%M%S}.00,{where},{quality},08,0.9,5,M,46,M,,")


def rmc(i, when, talker="GP", status="A", north=0.0):
    where = place(i, north)
    return sentence(f"{talker}RMC,{when:%H%M%S}.00,{status},{where},2,84,{when:%d%m%y},3,W")


def gll(i, when, talker="GP"):
    return sentence(f"{talker}GLL,{place(i)},{when:%H%M%S}.00,A,A")


def gns(i, when, talker="GN"):
    return sentence(f"{talker}GNS,{when:%H%M%S}.00,{place(i)},AAN,14,0.8,41.2,37.0,,")


def zda(i, when, talker="GP"):
    return sentence(f"{talker}ZDA,{when:%H%M%S}.00,{when:%d,%m,%Y},00,00")


def dpt(i, when, talker="SD", offset="0.0"):
    return sentence(f"{talker}DPT,{DEPTH[i]:.2f},{offset}")


def dbt(i, when, talker="SD"):
    return sentence(f"{talker}DBT,{DEPTH[i] / 0.3048:.2f},f,{DEPTH[i]:.2f},M,,F")


def again(text):
    """A changed sentence with a right checksum."""
    return sentence(text[1 : text.index("*")])


USUAL = (gga, dpt, rmc)


def sentences(*kinds, begin=BEGIN, rows=INDEX):
    every = kinds or USUAL
    return [[kind(i, begin + timedelta(seconds=int(i))) for kind in every] for i in rows]


def joined(epochs):
    return "".join(text for epoch in epochs for text in epoch)


def read(tmp_path, text, begin=BEGIN, **options):
    path = tmp_path / "log.nmea"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("latin-1"))
    found = read_soundings(path, **options)
    check(found, begin)
    return found


def check(found, begin=BEGIN, offset=0.0, dated=True):
    """Each sounding has a depth of the log, is where that was measured, and when."""
    depth = -found.z - offset
    which = np.abs(depth[:, None] - DEPTH).argmin(1)
    np.testing.assert_allclose(depth, DEPTH[which], atol=0.006)
    origin = found.projection
    true = origin.local_metres(LATITUDE, LONGITUDE)[which]
    assert np.hypot(*(found.xy - true).T).max() < 4.5  # at 2.2 m/s
    since = found.stamp_ns / 1e9 - which
    assert np.ptp(since) < 2.1
    if dated:
        assert np.abs(since - begin.timestamp()).max() < 2.1


def lost(found):
    return sum(found.refused.values())


WHOLE = {
    "plain": sentences(),
    "GLL": sentences(gll, dpt, zda),
    "GNS": sentences(gns, dpt, zda),
    "RMC": sentences(rmc, dpt),
    "depth first": sentences(dpt, gga, rmc),
    "DBT": sentences(gga, dbt, rmc),
    "talkers": sentences(
        functools.partial(gga, talker="GN"), functools.partial(dpt, talker="II"),
        functools.partial(rmc, talker="GN"),
    ),
    "date once": [*sentences(zda, gga, dpt, rows=[0]), *sentences(gga, dpt, rows=INDEX[1:])],
    "date late": [*sentences(gga, dpt, rows=INDEX[:-1]), *sentences(gga, dpt, zda, rows=[199])],
    "RMC all but a part": [*sentences(rmc, dpt, rows=INDEX[:9]), *sentences(rows=INDEX[9:])],
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_each_sounding_is_at_its_place_and_time(name, tmp_path):
    found = read(tmp_path, joined(WHOLE[name]))
    assert len(found) >= COUNT - 1 and lost(found) <= 1


CHANGED = {
    "no newlines": lambda t: t.replace("\r\n", ""),
    "CR": lambda t: t.replace("\r\n", "\r"),
    "LF": lambda t: t.replace("\r\n", "\n"),
    "blank lines": lambda t: t.replace("\r\n", "\r\r\n\n"),
    "BOM": lambda t: b"\xef\xbb\xbf" + t.encode(),
    "time stamps": lambda t: t.replace("$", "2025-06-01 10:00:00.123;$"),
    "quoted": lambda t: t.replace("$", '17,"$').replace("\r\n", '",3\r\n'),
    "tag blocks": lambda t: t.replace("$", "\\s:SD0001,c:1748772000*1A\\$"),
    "tag blocks with dollars": lambda t: t.replace("$", "\\s:S$D,c:17*1A\\$"),
    "other text": lambda t: t.replace("$SD", "depth ok; heave 0.1*\r\n!AIVDM,1,1,,A,x,0*5C\r\n$SD"),
    "other sentences": lambda t: t.replace("$SD", sentence("GPVTG,1,T,,M,2,N,3.7,K") + "$SD"),
    "proprietary": lambda t: t.replace("$SD", sentence("PSAT,HPR,1,2,3") + "$SD"),
    "binary": lambda t: t.encode().replace(b"$SD", b"\xb5\x62\x01\x07$\x00\xff\x2a41\n\x24\x24$SD"),
    "zeros": lambda t: t.encode() + bytes(70_000),
    "header": lambda t: "Logger 3000, serial 17\r\nstarted\r\n" * 500 + t,
    "lower checksums": lambda t: "".join(
        f"{line[:-2]}{line[-2:].lower()}\r\n" for line in t.split("\r\n") if line
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_stands_around_sentences_changes_nothing(name, tmp_path):
    found = read(tmp_path, CHANGED[name](joined(sentences())))
    assert find_reader(tmp_path / "log.nmea") == "nmea"
    assert len(found) >= COUNT - 1


@pytest.mark.parametrize("kinds", [(gga, dpt, rmc), (gll, dpt, zda), (rmc, dpt)])
def test_midnight_is_passed_with_dates(kinds, tmp_path):
    found = read(tmp_path, joined(sentences(*kinds, begin=NIGHT)), NIGHT)
    assert len(found) >= COUNT - 1


def test_midnight_is_passed_with_one_date_or_one_that_is_late(tmp_path):
    one = [*sentences(zda, begin=NIGHT, rows=[0]), *sentences(gga, dpt, begin=NIGHT)]
    assert len(read(tmp_path, joined(one), NIGHT)) == COUNT - 1
    late = rmc(100, NIGHT + timedelta(seconds=100))
    wrong = late.replace("020625", "010625")
    text = joined(sentences(rmc, dpt, begin=NIGHT)).replace(late, again(wrong))
    assert len(read(tmp_path, text, NIGHT)) >= COUNT - 2


def test_positions_without_a_time_place_depths_by_the_order_of_sentences(tmp_path):
    epochs = [[sentence(f"GPGLL,{place(i)}"), dpt(i, BEGIN)] for i in INDEX]
    (tmp_path / "log.nmea").write_text(joined(epochs))
    found = read_soundings(tmp_path / "log.nmea")
    assert len(found) == COUNT - 1 and found.stamp_ns is None
    true = found.projection.local_metres(LATITUDE, LONGITUDE)[:-1]
    assert np.hypot(*(found.xy - true).T).max() < 4.5


def test_without_a_date_days_count_from_0(tmp_path):
    (tmp_path / "log.nmea").write_text(joined(sentences(gga, dpt, begin=NIGHT)))
    found = read_soundings(tmp_path / "log.nmea")
    check(found, dated=False)
    assert "of day without a date" in found.source["written"] and len(found) == COUNT - 1


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda t: t[: t.index("*")] + "\r\n", "bad_checksum"),
        (lambda t: t[: t.index("*")] + "*00\r\n", "bad_checksum"),
        (lambda t: t[: t.index("*") - 2], "bad_checksum"),
        (lambda t: t.replace("DPT,", "DPT,1"), "bad_checksum"),
        (lambda t: t.replace("\n", "").replace("*", "*G"), "bad_checksum"),
        (lambda t: again(t.replace(".", ".x")), "bad_sentence"),
        (lambda t: sentence("SDDPT,,0.0"), "no_reading"),
        (lambda t: sentence("SDDPT,0.00,0.0"), "no_reading"),
        (lambda t: sentence("SDDPT,-1,0.0"), "no_reading"),
    ],
)
def test_damaged_depths_place_no_sounding_and_are_counted(damage, reason, tmp_path):
    epochs = sentences()
    for i in range(10, 190, 9):
        epochs[i][1] = damage(epochs[i][1])
    found = read(tmp_path, joined(epochs))
    assert found.refused[reason] == 20 and len(found) == COUNT - 21


def test_a_log_without_any_checksum_is_read_and_it_is_said(tmp_path):
    text = "\r\n".join(line.partition("*")[0] for line in joined(sentences()).splitlines())
    found = read(tmp_path, text)
    said = "(without checksums: GPGGA, SDDPT, GPRMC)"
    assert len(found) == COUNT - 1 and said in found.source["written"]
    sounder = [[e[0], e[1].partition("*")[0] + "\r\n", e[2]] for e in sentences()]
    assert len(read(tmp_path, joined(sounder))) == COUNT - 1
    found = read(tmp_path, joined(sentences(rows=INDEX[:150])) + text[text.index("$", 9000) :])
    assert len(found) == 149 and found.refused["bad_checksum"] > 100  # torn, where others have one


@pytest.mark.parametrize(
    "bad",
    [functools.partial(gga, quality=q) for q in (0, 6, 7)]
    + [lambda i, w: rmc(i, w, status="V"), lambda i, w: sentence("GPGGA,,,,,,0,,,,,,,,")],
)
def test_positions_without_a_fix_are_none(bad, tmp_path):
    """They say a place 300 m away."""
    kind = gga if "RMC" not in bad(0, BEGIN) else rmc
    epochs = sentences(kind, dpt, zda)
    for i in range(20, 60):
        epochs[i][0] = again(bad(i, BEGIN + timedelta(seconds=i)).replace(",5306", ",5346"))
    found = read(tmp_path, joined(epochs))
    assert found.refused["no_fix"] == 40 and found.refused["position_gap"] >= 40
    assert len(found) >= COUNT - 43


def test_receivers_that_agree_are_one_and_a_new_talker_loses_nothing(tmp_path):
    both = sentences(gga, functools.partial(gga, talker="GN", north=2.0), dpt, rmc)
    assert len(read(tmp_path, joined(both))) == COUNT - 1
    gn = [functools.partial(kind, talker="GN") for kind in (gga, rmc)]
    for cut in (50, 130):
        epochs = [*sentences(rows=INDEX[:cut]), *sentences(gn[0], dpt, gn[1], rows=INDEX[cut:])]
        found = read(tmp_path, joined(epochs))
        assert len(found) == COUNT - 1, found.refused
        assert "positions GPGGA, GNGGA" in found.source["written"]


@pytest.mark.parametrize("every", [1, 3])
def test_receivers_at_two_places_are_one_short_question(every, tmp_path):
    epochs = sentences()
    for i in range(0, COUNT, every):
        epochs[i].insert(1, gga(i, BEGIN + timedelta(seconds=i), "GN", north=300.0))
    path = tmp_path / "log.nmea"
    path.write_text(joined(epochs), newline="")
    with pytest.raises(Question) as asked:
        read_soundings(path)
    assert "300 m apart at the same times: GP (400 fixes), GN (" in asked.value.text
    assert [*asked.value.answers.values()] == [f"--columns latitude={n}" for n in ("GP", "GN")]
    for wanted in ("GP", "gpgga"):
        options = ReadOptions(columns={"latitude": wanted})
        assert len(read(tmp_path, path.read_text(), options=options)) == COUNT - 1
    with pytest.raises(InputError, match=r"expected latitude=GPGGA or .*got latitude=GX"):
        read_soundings(path, ReadOptions(columns={"latitude": "GX"}))


def test_one_sentence_at_two_places_has_no_answer(tmp_path):
    same = [[gga(i, BEGIN + timedelta(seconds=int(i)), north=300.0), *epoch]
            for i, epoch in zip(INDEX, sentences(), strict=True)]  # fmt: skip
    with pytest.raises(InputError, match=r"300 m apart at the same times: GPGGA \(400 fixes\)$"):
        read(tmp_path, joined(same))


@pytest.mark.parametrize("offset", ["0.5", "-0.4", ""])
def test_offsets_of_dpt(offset, tmp_path):
    epochs = sentences(gga, functools.partial(dpt, offset=offset), rmc)
    for i in (20, 50):
        epochs[i][1] = dpt(i, BEGIN, offset="")
    path, below = tmp_path / "log.nmea", max(0.0, float(offset or 0))
    path.write_text(joined(epochs))
    found = read_soundings(path)
    check(found, offset=below)
    assert ("below the transducer" in found.source["understood"]) == (not below)
    assert found.refused["no_offset"] == 2 * bool(below)  # without the offset of the others
    named = read_soundings(path, ReadOptions(columns={"depth": "DPT"}))  # of its two, the more
    assert named.refused["no_offset"] == found.refused["no_offset"] and len(named) == len(found)
    deeper = read_soundings(path, ReadOptions(draught=0.2))
    assert deeper.source["draught"] == 0.2 and np.allclose(deeper.z, found.z - 0.2)


@pytest.mark.parametrize("kind", ["DBT", "DBS"])
@pytest.mark.parametrize(
    ("fields", "good"),
    [("{ft},f,,M,,F", True), ("{ft},f,,,,", True), (",f,{m},M,,F", True), (",,,,{fa},F", True),
     ("{m},M,,,,", False), ("{m},,{m},,,", False), ("{m},x,,,,", False)],
)  # fmt: skip
def test_feet_and_fathoms_are_depths_and_other_units_none(kind, fields, good, tmp_path):
    def depth(i, when):
        values = {"ft": f"{DEPTH[i] / 0.3048:.3f}", "fa": f"{DEPTH[i] / 1.8288:.4f}"}
        return sentence(f"SD{kind}," + fields.format(m=f"{DEPTH[i]:.2f}", **values))

    text = joined(sentences(gga, depth, rmc))
    if good:
        assert len(read(tmp_path, text)) == COUNT - 1
        return
    with pytest.raises(InputError, match="200 bad_sentence"):
        read(tmp_path, text)


def test_two_sounders(tmp_path):
    same = functools.partial(dpt, talker="II")
    found = read(tmp_path, joined(sentences(gga, dpt, same, rmc)))
    assert found.refused["other_sonar"] == COUNT and len(found) == COUNT - 1

    def other(i, when):
        return sentence(f"YXDPT,{2.3 * DEPTH[i]:.2f},0.0")

    with pytest.raises(
        InputError,
        match=r"expected one depth, got several that differ: YXDPT .* SDDPT .*depth=YXDPT; if",
    ):
        read(tmp_path, joined(sentences(gga, dpt, other, rmc)))


def test_doubled_sentences_are_one_and_equal_depths_are_not(tmp_path):
    """One after the other, or each epoch again; of a sounder that is twice as fast."""
    level = 10 * (INDEX // 10)
    fast = [[e[0], *2 * [dpt(i, BEGIN)], e[2]] for i, e in zip(level, sentences(), strict=True)]
    for epochs, usual in ((sentences(), COUNT), (fast, 2 * COUNT)):
        for text in ([[t for t in e for _ in (1, 2)] for e in epochs], [2 * e for e in epochs]):
            (tmp_path / "log.nmea").write_text(joined(text))
            found = read_soundings(tmp_path / "log.nmea")
            assert usual - 2 <= len(found) <= usual and found.refused["repeated"] == usual


def below_keel(i, when):
    return sentence(f"SDDBK,,f,{DEPTH[i] - 0.9:.2f},M,,F")


def test_depths_below_the_keel_need_its_depth(tmp_path):
    path = tmp_path / "log.nmea"
    path.write_text(joined(sentences(gga, below_keel, rmc)), newline="")
    said = read_soundings(path).source["understood"]
    assert "below the keel; --keel adds its depth" in said
    check(read_soundings(path, ReadOptions(keel=0.9)))
    with pytest.raises(InputError, match="--draught: does not apply to depths of SDDBK"):
        read_soundings(path, ReadOptions(draught=0.9))
    path.write_text(joined(sentences(gga, below_keel, dbt, rmc)), newline="")
    check(read_soundings(path))  # from the transducer, where both are there
    with pytest.raises(InputError, match="--keel: does not apply to depths of SDDBT"):
        read_soundings(path, ReadOptions(keel=0.9))


@pytest.mark.parametrize("off", [-1.1, 0.4])
def test_the_depth_below_the_surface_is_not_smaller_than_that_below_the_transducer(off, tmp_path):
    def dbs(i, when):
        return sentence(f"SDDBS,,f,{DEPTH[i] + off:.2f},M,,F")

    path = tmp_path / "log.nmea"
    path.write_text(joined(sentences(gga, dbt, dbs, rmc)), newline="")
    if off > 0:
        check(read_soundings(path), offset=off)
        return
    with pytest.raises(InputError, match=r"several that differ: SDDBT .*--columns depth=SDDBT; if"):
        read_soundings(path)
    check(read_soundings(path, ReadOptions(columns={"depth": "DBT"})))
    check(read_soundings(path, ReadOptions(columns={"depth": "SDDBS"})), offset=off)
