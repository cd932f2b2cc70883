"""Logs of NMEA 0183 as loggers write them: each sounding at its place and time, or none."""

from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from nmea_sentences import sentence, spelt
from one_lake import options_of

from poam_ros.core.errors import InputError, Question
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import find_reader, read_soundings

pytest.importorskip("pynmeagps")

COUNT = 200
BEGIN = datetime(2025, 6, 1, 10, 0, 0, tzinfo=timezone.utc)
NIGHT = datetime(2025, 6, 1, 23, 58, 20, tzinfo=timezone.utc)
INDEX = range(COUNT)
LATITUDE, LONGITUDE = 53.1 + 2e-5 * np.arange(COUNT), -8.6 + 4e-5 * np.sin(np.arange(COUNT) / 20)
#: A depth of its own for each, so that a sounding is known by its depth.
DEPTH = np.round(5.0 + 0.01 * (np.arange(COUNT) * 77 % COUNT), 2)
#: The fields of sentences, by kind.
FIELDS = {
    "GGA": "{time},{place},{quality},08,0.9,5,M,46,M,,", "GNS": "{time},{place},AAN,14,0.8,41,37,,",
    "RMC": "{time},{status},{place},2,84,{when:%d%m%y},3,W", "GLL": "{place},{time},A,A",
    "ZDA": "{time},{when:%d,%m,%Y},00,00", "DPT": "{depth:.2f},{offset}",
    "DBT": "{feet:.3f},f,{depth:.2f},M,,F", "DBS": ",f,{more:.2f},M,,F",
    "DBK": ",f,{more:.2f},M,,F",
}  # fmt: skip
USUAL = "GPGGA", "SDDPT", "GPRMC"


def say(name, i, begin=BEGIN, north=0.0, off=0.0, depth_of=None, **changed):
    """The sentence of this name, or with fields of its own, at the i-th second; ``north``: so many
    metres beside the place; ``off``: added to depths below the keel or the surface."""
    when = begin + timedelta(seconds=i)
    place = f"{spelt(LATITUDE[i] + north / 111_320, 'NS')},{spelt(LONGITUDE[i], 'EW')}"
    depth = DEPTH[i if depth_of is None else depth_of]
    known = {"time": f"{when:%H%M%S}.00", "when": when, "place": place, "quality": 1, "status": "A",
             "depth": depth, "feet": depth / 0.3048, "more": depth + off,
             "offset": "0.0"}  # fmt: skip
    text = name if "," in name else f"{name},{FIELDS[name[2:]]}"
    return sentence(text.format(**known | changed))


def log(*names, rows=INDEX, **changed):
    """The sentences of each second, in a list of their own."""
    return [[say(name, i, **changed) for name in names or USUAL] for i in rows]


def joined(epochs):
    return "".join(text for epoch in epochs for text in epoch)


def again(text):
    """A changed sentence with a right checksum."""
    return sentence(text[1 : text.index("*")])


def each(epochs, which, at, change):
    """The same with some changed sentences: the ``at``-th of some seconds."""
    return [[*e[:at], *([change(e[at])] if i in which else [e[at]]), *e[at + 1 :]]
            for i, e in enumerate(epochs)]  # fmt: skip


def without_fix(name, bad):
    """A log in which sentences of 40 s say in a field, or by empty fields, that there is no fix."""
    epochs = log(name, "SDDPT", "GPZDA")
    for i in INDEX[20:60]:
        none = "GPGGA,,,,,,0,,,,,,,," if bad is None else name
        epochs[i][0] = say(none, i, north=300, **bad or {})
    return epochs


def check(found, begin=BEGIN, offset=0.0):
    """Each sounding has a depth of the log, is where that was measured, and when."""
    depth = -found.z - offset
    which = np.abs(depth[:, None] - DEPTH).argmin(1)
    np.testing.assert_allclose(depth, DEPTH[which], atol=0.006)
    true = found.projection.local_metres(LATITUDE, LONGITUDE)[which]
    assert np.hypot(*(found.xy - true).T).max() < 4.5  # at 2.2 m/s
    if found.stamp_ns is not None:
        since = found.stamp_ns / 1e9 - which
        assert np.ptp(since) < 2.1
        if begin is not None:
            assert np.abs(since - begin.timestamp()).max() < 2.1


@pytest.fixture
def read(write):
    def read(epochs, begin=BEGIN, offset=0.0, **options):
        text = epochs if isinstance(epochs, (str, bytes)) else joined(epochs)
        found = read_soundings(write(text, "log.nmea", "latin-1"), ReadOptions(**options))
        check(found, begin, offset)
        return found

    return read


PLAIN = joined(log())
BARE = "\r\n".join(line.partition("*")[0] for line in PLAIN.splitlines())
LATE = say("GPRMC", 100, begin=NIGHT)
#: All of the soundings but the last, which has no position behind it, or so many less.
WHOLE = {
    "plain": log(), "GLL": log("GPGLL", "SDDPT", "GPZDA"), "GNS": log("GNGNS", "SDDPT", "GPZDA"),
    "RMC": log("GPRMC", "SDDPT"), "depth first": log("SDDPT", "GPGGA", "GPRMC"),
    "DBT": log("GPGGA", "SDDBT", "GPRMC"), "talkers": log("GNGGA", "IIDPT", "GNRMC"),
    "date once": log("GPZDA", "GPGGA", "SDDPT", rows=[0]) + log(*USUAL[:2], rows=INDEX[1:]),
    "date late": log(*USUAL[:2], rows=INDEX[:-1]) + log("GPGGA", "SDDPT", "GPZDA", rows=[199]),
    "RMC all but a part": log("GPRMC", "SDDPT", rows=INDEX[:9]) + log(rows=INDEX[9:]),
    "receivers that agree": [[say("GNGGA", i, north=2.0), *e] for i, e in enumerate(log())],
    "a sounder twice": (log("GPGGA", "SDDPT", "IIDPT", "GPRMC"), {"other_sonar": COUNT}),
    "a receiver twice": (log("GPGGA", "SDDPT", "IIGGA", "GPRMC"), {"other_receiver": COUNT}),
    "a sounder without checksums": each(log(), INDEX, 1, lambda t: t.partition("*")[0] + "\r\n"),
    **{f"a new talker from {cut} on": (
        log(rows=INDEX[:cut]) + log("GNGGA", "SDDPT", "GNRMC", rows=INDEX[cut:]), {},
        "positions GPGGA, GNGGA") for cut in (50, 130)},
    "no checksums": (BARE, {}, "(without checksums: GPGGA, SDDPT, GPRMC)"),
    # What stands around sentences changes nothing.
    "no newlines": PLAIN.replace("\r\n", ""), "CR": PLAIN.replace("\r\n", "\r"),
    "LF": PLAIN.replace("\r\n", "\n"), "blank lines": PLAIN.replace("\r\n", "\r\r\n\n"),
    "BOM": b"\xef\xbb\xbf" + PLAIN.encode(),
    "time stamps": PLAIN.replace("$", "2025-06-01 10:00:00.123;$"),
    "quoted": PLAIN.replace("$", '17,"$').replace("\r\n", '",3\r\n'),
    "tag blocks": PLAIN.replace("$", "\\s:SD0001,c:1748772000*1A\\$"),
    "tag blocks with dollars": PLAIN.replace("$", "\\s:S$D,c:17*1A\\$"),
    "other text": PLAIN.replace("$SD", "depth ok; heave 0.1*\r\n!AIVDM,1,1,,A,x,0*5C\r\n$SD"),
    "other sentences": PLAIN.replace("$SD", sentence("GPVTG,1,T,,M,2,N,3.7,K") + "$SD"),
    "proprietary": PLAIN.replace("$SD", sentence("PSAT,HPR,1,2,3") + "$SD"),
    "binary": PLAIN.encode().replace(b"$SD", b"\xb5\x62\x01\x07$\x00\xff\x2a41\n\x24\x24$SD"),
    "zeros": PLAIN.encode() + bytes(70_000),
    "header": "Logger 3000, serial 17\r\nstarted\r\n" * 500 + PLAIN,
    "lower checksums": "".join(f"{t[:-2]}{t[-2:].lower()}\r\n" for t in PLAIN.split()),
}  # fmt: skip
#: Every ninth depth is damaged, by the reason that is counted.
DAMAGED = {
    "bad_checksum": (
        lambda t: t[: t.index("*")] + "\r\n", lambda t: t[: t.index("*")] + "*00\r\n",
        lambda t: t[: t.index("*") - 2], lambda t: t.replace("DPT,", "DPT,1"),
        lambda t: t.replace("\n", "").replace("*", "*G")),
    "bad_sentence": (lambda t: again(t.replace(".", ".x")),),
    "no_reading": tuple(lambda t, depth=depth: sentence(f"SDDPT,{depth},0.0")
                        for depth in ("", "0.00", "-1")),
}  # fmt: skip
#: The same, with how many are refused.
WHOLE |= {
    **{f"{reason}, {number}": (each(log(), INDEX[10:190:9], 1, damage), {reason: 20})
       for reason, kinds in DAMAGED.items() for number, damage in enumerate(kinds)},
    # Without a fix they say a place 300 m away.
    **{f"{name}, {bad}": (without_fix(name, bad), {"no_fix": 40, "position_gap": 41})
       for name, bad in (
           *(("GPGGA", {"quality": quality}) for quality in (0, 6, 7)),
           ("GPRMC", {"status": "V"}), ("GPGGA", None))},
}  # fmt: skip
#: Over midnight: with dates, one, or one that is late.
NIGHTS = {
    **{"".join(names): log(*names, begin=NIGHT)
       for names in (USUAL, ("GPGLL", "SDDPT", "GPZDA"), ("GPRMC", "SDDPT"))},
    "one date": log("GPZDA", rows=[0], begin=NIGHT) + log(*USUAL[:2], begin=NIGHT),
    "a late date": joined(log("GPRMC", "SDDPT", begin=NIGHT)).replace(
        LATE, again(LATE.replace("020625", "010625"))),
}  # fmt: skip


@pytest.mark.parametrize("name", [*WHOLE, *NIGHTS])
def test_each_sounding_is_at_its_place_and_time(name, read, tmp_path):
    epochs, refused, said = WHOLE.get(name), {}, ""
    if isinstance(epochs, tuple):
        epochs, refused, said = (*epochs, "")[:3]
    found = read(epochs or NIGHTS[name], NIGHT if name in NIGHTS else BEGIN)
    assert find_reader(tmp_path / "log.nmea") == "nmea" and said in found.source["written"]
    lost = sum(n for reason, n in refused.items() if not reason.startswith(("other", "no_fix")))
    assert COUNT - lost >= len(found) >= COUNT - 1 - lost - (name == "a late date")
    assert {reason: found.refused[reason] for reason in refused} == refused


@pytest.mark.parametrize("name", ["GPGLL,{place}", "GPGGA"])
def test_without_times_the_order_of_sentences_counts_and_without_a_date_days_from_0(name, read):
    found = read(log(name, "SDDPT", begin=NIGHT), None)
    assert len(found) == COUNT - 1 and (found.stamp_ns is None) == ("," in name)
    assert ("of day without a date" in found.source["written"]) == (name == "GPGGA")


def test_sentences_without_a_checksum_are_torn_where_others_have_one(read):
    found = read(joined(log(rows=INDEX[:150])) + BARE[BARE.index("$", 9000) :])
    assert len(found) == 149 and found.refused["bad_checksum"] > 100


@pytest.mark.parametrize("every", [1, 3])
def test_receivers_at_two_places_are_one_short_question(every, read):
    """One sentence at two places has no answer."""
    epochs = log()
    for i in INDEX[::every]:
        epochs[i].insert(1, say("GNGGA", i, north=300.0))
    with pytest.raises(Question) as asked:
        read(epochs)
    assert "300 m apart at the same times: GP (400 fixes), GN (" in asked.value.text
    assert [*asked.value.answers.values()] == [f"--columns latitude={n}" for n in ("GP", "GN")]
    for wanted in ("GP", "gpgga"):
        assert len(read(epochs, columns={"latitude": wanted})) == COUNT - 1
    with pytest.raises(InputError, match=r"expected latitude=GPGGA or .*got latitude=GX"):
        read(epochs, columns={"latitude": "GX"})
    epochs = [[say("GPGGA", i, north=300.0), *epoch] for i, epoch in enumerate(log())]
    with pytest.raises(InputError, match=r"300 m apart at the same times: GPGGA \(400 fixes\)$"):
        read(epochs)


@pytest.mark.parametrize("offset", ["0.5", "-0.4", ""])
def test_offsets_of_dpt(offset, read):
    epochs, below = log(offset=offset), max(0.0, float(offset or 0))
    for i in (20, 50):
        epochs[i][1] = say("SDDPT", i, offset="")
    for columns in ({}, {"depth": "DPT"}):  # of its two, the more
        found = read(epochs, offset=below, columns=columns)
        assert ("below the transducer" in found.source["understood"]) == (not below)
        assert found.refused["no_offset"] == 2 * bool(below)  # without the offset of the others
    deeper = read(epochs, offset=below + 0.2, draught=0.2)
    assert deeper.source["draught"] == 0.2 and len(deeper) == len(found)


@pytest.mark.parametrize("kind", ["DBT", "DBS"])
@pytest.mark.parametrize(
    ("fields", "good"),
    [("{feet:.3f},f,,M,,F", True), ("{feet:.3f},f,,,,", True), (",f,{depth:.2f},M,,F", True),
     (",,,,{fathoms:.4f},F", True), ("{depth:.2f},M,,,,", False),
     ("{depth:.2f},,{depth:.2f},,,", False), ("{depth:.2f},x,,,,", False)],
)  # fmt: skip
def test_feet_and_fathoms_are_depths_and_other_units_none(kind, fields, good, read):
    epochs = [[say("GPGGA", i), say(f"SD{kind},{fields}", i, fathoms=DEPTH[i] / 1.8288),
               say("GPRMC", i)] for i in INDEX]  # fmt: skip
    if good:
        assert len(read(epochs)) == COUNT - 1
        return
    with pytest.raises(InputError, match="200 bad_sentence"):
        read(epochs)


def test_doubled_sentences_are_one_and_equal_depths_are_not(write):
    """One after the other, or each epoch again; of a sounder that is twice as fast."""
    fast = [[e[0], *2 * [say("SDDPT", i, depth_of=i - i % 10)], e[2]] for i, e in enumerate(log())]
    for epochs, usual in ((log(), COUNT), (fast, 2 * COUNT)):
        for text in ([[t for t in e for _ in (1, 2)] for e in epochs], [2 * e for e in epochs]):
            found = read_soundings(write(joined(text), "log.nmea"))
            assert usual - 2 <= len(found) <= usual and found.refused["repeated"] == usual


def test_depths_below_the_keel_need_its_depth(read):
    epochs = log("GPGGA", "SDDBK", "GPRMC", off=-0.9)
    said = read(epochs, offset=-0.9).source["understood"]
    assert "below the keel; --keel adds its depth" in said
    read(epochs, keel=0.9)
    with pytest.raises(InputError, match="--draught: does not apply to depths of SDDBK"):
        read(epochs, draught=0.9)
    epochs = log("GPGGA", "SDDBK", "SDDBT", "GPRMC", off=-0.9)
    read(epochs)  # from the transducer, where both are there
    with pytest.raises(InputError, match="--keel: does not apply to depths of SDDBT"):
        read(epochs, keel=0.9)


@pytest.mark.parametrize(
    ("other", "off", "first"),
    [("SDDBS", 0.4, ""), ("SDDBS", -1.1, "SDDBT"), ("YXDPT,{more:.2f},0.0", -1.1, "YXDPT"),
     ("YXDPT,{more:.2f},0.0", 0.4, "")],
)  # fmt: skip
def test_of_depths_that_differ_those_from_the_surface_are_not_the_smaller(other, off, first, read):
    epochs = log("GPGGA", "SDDBT", other, "GPRMC", off=off)
    if other == "SDDBS" and not first:
        read(epochs, offset=off)
        return
    with pytest.raises(Question, match="several that differ: ") as asked:
        read(epochs)
    answers = [*asked.value.answers.values()]
    assert len(answers) == 2 and answers[0].startswith(f"--columns depth={first}")
    for words in answers:
        read(epochs, offset=0 if "SDDBT" in words else off, columns=options_of(words).columns)
