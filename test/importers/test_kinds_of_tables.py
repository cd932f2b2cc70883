"""Tables as loggers, plotters, survey programs and people write them, made up: all of one lake.

Each is read as the lake, or is a question whose first answer gives it, or is refused.
"""

import json
import re

import numpy as np
import one_lake
import pytest
from one_lake import COUNT, FOOT, LAT, LON, WHEN, T, check, options_of, places, table, texts

from poam_ros.core.errors import InputError, Question
from poam_ros.core.reading import VARIABLE
from poam_ros.importers.raw import ReadOptions
from poam_ros.importers.readers import read_soundings

LATITUDE, LONGITUDE, D = one_lake.LATITUDE, one_lake.LONGITUDE, one_lake.DEPTH
EAST, NORTH, FT, UP, WEST = one_lake.EAST, one_lake.NORTH, D / FOOT, -D, texts(-LONGITUDE)
#: Degrees times 10,000,000; and times 1,000,000, as no instrument writes them.
INTEGERS, MILLIONS = (
    [texts(size * each, ".0f") for each in (LATITUDE, LONGITUDE)] for size in (1e7, 1e6)
)
RADIUS = 6_356_752.3142
MERCATOR = (
    texts(np.radians(LONGITUDE) * RADIUS, ".0f"),
    texts(RADIUS * np.log(np.tan(np.radians(LATITUDE) / 2 + np.pi / 4)), ".0f"),
)
#: Degrees and minutes with sides, and beside each other in one cell.
NS, EW = ([f"{side}{int(v)}° {60 * (v % 1):.4f}'" for v in size]
          for side, size in (("N", LATITUDE), ("W", -LONGITUDE)))  # fmt: skip
PACKED = [texts(100 * np.trunc(v) + 60 * np.fmod(v, 1), ".5f") for v in (LATITUDE, LONGITUDE)]
DAY, CLOCK = ([f"{when:{form}}" for when in WHEN] for form in ("%Y-%m-%d", "%H:%M:%S"))
SIX = np.array([when.timetuple()[:6] for when in WHEN]).T
#: In US feet of the state that the lake lies in.
STATE = places("EPSG:2286")
#: Altitudes of a vehicle that dives and rises, and of one that holds its depth.
NOISE = np.random.default_rng(5).normal(size=COUNT)
DIVES, HOLDS = 3 + 2 * np.sin(T / 6), 2 + 0.02 * NOISE
#: Heights of a boat's antenna: drifting, noisy, falling with the ground, constant.
ANTENNA = {"drift": 46.9 + 0.5 * np.sin(T / 50), "noise": 46.9 + NOISE,
           "falls": 46.9 - 0.4 * D, "constant": 46.9 + 0 * T}  # fmt: skip
POINTS = [{"lat": a, "lon": b, "depth": d, "by": "a\u2028b"}
          for a, b, d in zip(LATITUDE, LONGITUDE, D, strict=True)]  # fmt: skip
LINES = [json.dumps(each, ensure_ascii=False) for each in POINTS]


def some(every, cells, other=""):
    """Cells of every n-th row."""
    return [each if i % every == 0 else other for i, each in enumerate(cells)]


def of(*parts):
    """Texts in one cell, of columns and of texts that are in each."""
    columns = ([each] * COUNT if isinstance(each, str) else each for each in parts)
    return ["".join(each) for each in zip(*columns, strict=True)]


def lake(header="lat,lon,depth", *columns, **how):
    """A table whose first columns are latitude and longitude."""
    return table(header, LAT, LON, *(columns or [D]), **how)


def metres(header, height=D):
    """A table of eastings, northings and depths."""
    return table(header, EAST, NORTH, height)


def vehicle(names, own, above):
    """A table of a vehicle's depths or elevations, and of its altitudes."""
    return lake(f"latitude,longitude,{names}", own, above)


def sided(header, *columns):
    return table(header, *columns, separator=";").replace(".", ",")


#: By the program or the header: the text, and where they matter the options and what is said.
READ = {
    "plotter's log, Mercator beside degrees": lake(
        "Latitude,Longitude,Easting,Northing,Depth[ft],Time[s]", *MERCATOR, FT, T),
    "waypoints of a plotter": table(
        "Name\tPosition Lat\tPosition Lon\tDepth", [f"{i:03}" for i in T], NS, EW,
        [f"{d:.1f} ft" for d in FT], separator="\t"),
    "track of a plotter": "Grid\tLat/Lon\n\nHeader\tName\tLength\nTrack\tA\t2.9 km\n\n" + table(
        "Header\tPosition\tTime\tDepth", "Trackpoint", of(NS, " ", EW),
        [f"{when:%d/%m/%Y %H:%M:%S}" for when in WHEN], [f"{d:.2f} m" for d in D], separator="\t"),
    "contours' service": table("Longitude,Latitude,Elevation_m,ID", LON, LAT, UP, T),
    "hydrographic x y z": table("", EAST, NORTH, UP, separator=" "),
    "microcontroller with a card": table(
        "millis;fix;lat;lon;depth_cm", 1000 * T, 1 * (T > 20),
        *[[""] * 21 + each[21:] for each in (LAT, LON)], texts(100 * D, ".0f"),
        separator=";", end=";\n"),
    "receiver's fields, sides beside": table(
        "UTC,Lat,NS,Lon,EW,Depth,Remark", CLOCK, LAT, "N", WEST, "W", D),
    "phone, blanks between fixes": table("timestamp,lat,lon,accuracy,depth", map(str, WHEN),
                                         some(3, LAT, "null"), some(3, LON, "null"), "4", D),
    "sonar with confidence": table(
        "Time,Depth (mm),Confidence (%),Latitude,Longitude", of(DAY, " ", CLOCK),
        texts(np.where(T % 9, 1000 * D, 250), ".0f"), np.where(T % 9, 97, 42), LAT, LON),
    "sonar with a flag": lake("lat,lon,depth,valid", np.where(T % 9, D, 0.25), 1 * (T % 9 > 0)),
    "a flag that most have not": lake("lat,lon,depth,quality", D, np.where(T % 9, 0, 3)),
    "feet and metres": lake("Lat,Lon,DEPTH,DEPTH_M", FT, D),
    "spreadsheet": (sided("Breite;Länge;Wassertiefe (m)", LAT, LON, D), {}, "decimal commas"),
    "an old spreadsheet": sided("Breite;Länge;Wassertiefe (m)", LAT, LON, D).encode("cp1252"),
    "sixteen bits": lake().encode("utf-16"),
    "with a mark": lake("lat,lon,depth,n\ufffdme", D, "-").encode("utf-8-sig"),
    "American dates": table("Date,Time,Lat,Long,Depth (ft)", [f"{w:%m/%d/%Y}" for w in WHEN],
                            [f"{w:%I:%M:%S %p}" for w in WHEN], LAT, LON, FT),
    "comments and a row of units": "# sounder 3.1\n# draught 0\n" + table(
        "Time,Lat,Lon,Depth\ns,deg,deg,ft", T, LAT, LON, FT),
    "depths and positions in rows of their own": table(
        "time,lat,lon,depth", T, some(2, LAT), some(2, LON), ["", *some(2, texts(D[1:], ".2f"))]),
    "echosounder's software": table(
        "Ping_date, Ping_time, Latitude, Longitude, Position_status, Depth, GPS_time", DAY,
        [f" {c}" for c in CLOCK], np.where(T % 17, LAT, "999.0"), np.where(T % 17, LON, "999.0"),
        1 * (T % 17 > 0), np.where(T % 19, texts(D, " .3f"), " -10000.99"), " 15:00:00"),
    "side-scan's pings": table(
        "record_num,time_s,utm_e,utm_n,speed_ms,inst_dep_m,lon,lat,date,time,dep_m", T, T / 10,
        *MERCATOR, "1.52", D - 0.3, LON, LAT, DAY, CLOCK, D),
    "longitude, latitude, z": table("", LON, LAT, UP, separator="\t"),
    "a northing called easting": table("No.,Zone,Northing,Easting,longitude,latitude,Depth", T,
                                       "10T", EAST, NORTH, LON, LAT, D),
    "a message's fields": table("GPS.lat,GPS.lon,RANGE.depth", *INTEGERS, D),
    "lines of JSON": "\ufeff" + "\r\n \n".join(LINES),
    # Of objects in objects, and below a list of something else.
    "a document of JSON": json.dumps({
        "stations": [{"latitude": 47, "longitude": -122, "elevation": i, "date": "2025-01-17",
                      "x": i, "quality": 9} for i in range(40)],
        "log": [{"at": {"latitude": each["lat"], "longitude": each["lon"]}, "depth": each["depth"]}
                for each in POINTS]}, indent=1),
    "days of JSON": json.dumps({"monday": POINTS[:120], "tuesday": POINTS[120:]}),
    # The tracks have a place and a depth, too, but fewer.
    "tracks of JSON": json.dumps({"tracks": [
        {"lat": 47.1, "lon": -122.3, "depth": 99, "points": POINTS[:120]},
        {"lat": 47.2, "lon": -122.4, "depth": 99, "points": [{**e, "by": 0} for e in POINTS[120:]]},
    ]}),
    "six columns of JSON": (json.dumps([
        {**each, **dict(zip("YMDhms", six, strict=True))} for each, six in
        zip(POINTS, SIX.T.tolist(), strict=True)]), {"by": "m"}, "time = datetime"),
    "points of WKT": table("WKT,depth", of('"POINT (', LON, " ", LAT, ')"'), D),
    **{name: table(f"{name};depth", of(LAT, ", ", LON), D, separator=";") for name in
       ("Lat/Lon", "LatLong", "GPS Position", "Coordinate (WGS84)", "Koordinaten")},
    "times of a few events": (lake("lat,lon,depth,mark", D, some(9, 1737129827 + T)), {}, "(m)sep"),
    "places in one cell": table("position;depth", of(NS, ", ", EW), D, separator=";"),
    "minutes of three decimals in one cell": table(
        "Name;Position;Depth", T, of("N47 ", texts(60 * (LATITUDE - 47), ".3f"), " W122 ",
                                     texts(-60 * (LONGITUDE + 122), ".3f")), D, separator=";"),
    # A receiver without a fix has none; those between have one from their rows.
    "places in one cell that begin later": table(
        "position,depth", np.where((T >= 50) & (T % 9 > 0), of('"', LAT, ", ", LON, '"'), ""), D),
    "quoted decimal commas": table("lat,lon,depth", *(
        [f'"{v}"' for v in each] for each in (LAT, LON, texts(D, ".2f")))).replace(".", ","),
    # Layouts.
    "a quote that nothing closes": lake("lat lon depth remark", D,
                                        np.where(T == 150, '"shore', "-"), separator=" "),
    "blanks": table("lat lon depth", LAT, of("  ", LON), D, separator=" "),
    **{begin: begin + lake() for begin in (
        "# made by a sounder\n#\n\n", "Survey of Monday\nBoat: Ada\n", "# 3,4,5\n")},
    "a commented header": lake("# lat,lon,depth\n#53.2,8.6,5.1"),
    "a separator that is named": "sep=;\n" + lake("Lat;Lon;Depth", separator=";"),
    "rows of separators": lake(end="\n,,\n"),
    "units in cells": sided("Lat;Lon;Depth", LAT, LON, [f"{d:.2f}m" for d in D]),
    "units in cells of a second language": table("depth\tlat\tlon", [f"{d:.2f} m" for d in D], LAT,
                                                 LON, separator="\t"),
    "a unit beyond the header": lake()[:-1] + ",ft",
    # A header of short words is no row of units.
    "a header of blanks": table("Survey of Monday\nDjup Latitud Longitud", D, LAT, LON,
                                separator=" "),
    "names of a profile's samples": (lake("lat,lon,depth,0.5,1.0", D, "3", "70"), {},
                                     "depth = depth"),
    **{remark: (remark + "\n" + lake("", separator=" "), {}, "depth = 3")
       for remark in ("Node Number = 400", "# draught 0 m")},
    # Words and units of headers.
    **{header: (table(header, LAT, WEST, D), {}, "west by the header") for header in (
        "Latitude (N),Longitude (W),Depth", "Lat_N,Lon_W,depth",
        "North Latitude,West Longitude,depth", "Latitude,Longitude,Depth\n°N,°W,m")},
    "west with a minus": lake("Lat_N,Lon_W,depth"),
    "sides in the cells, too": table("Lat (N/S),Lon (E/W),depth", of(LAT, " N"), of(WEST, " W"), D),
    **{header: lake(header) for header in (
        "Latitudine,Longitudine,Profondità", "Latitude,Longitude,Profundidade",
        "Breedtegraad,Lengtegraad,Diepte", "Leveysaste,Pituusaste,Syvyys",
        "Szerokość,Długość,Głębokość", "Breddegrad,Lengdegrad,Dybde",
        "Breitengrad,Längengrad,Wassertiefe", "geogr_ Breite,geogr_ Länge,Tiefe",
        "Nördliche Breite,Östliche Länge,Tiefe")},
    **{unit: lake(f"lat,lon,Depth ({unit})", D / size) for unit, size in (
        ("dm", 0.1), ("in", 0.0254), ("yd", 0.9144), ("us survey feet", FOOT),
        ("m below datum", 1))},
    "a column of units": lake("lat,lon,depth,Depth Units", FT, "Feet"),
    "from the transducer and the surface": lake("lat,lon,DBT,DBS", D - 0.5, D),
    "numbers of rows": table("#,lat,lon,depth", T, LAT, LON, D),
    "heights above the sea": lake("lat,lon,Elevation (m a.s.l.)", UP),
    "feet above the sea": lake("lat,lon,elevation\ndeg,deg,ft a.s.l.", UP / FOOT),
    "German feet": lake("Breite,Länge,Tiefe\nGrad,Grad,Fuß", FT),
    # No times: a serial number, and numbers of rows beside a date.
    "a serial number": (lake("lat,lon,depth,serial", D, "4000000000"), {}, "(m)sep"),
    "numbers beside a date": (lake("lat,lon,depth,date,time", D, "2025-01-17", 10_000 + T), {},
                              "times not read, such as 2025-01-17 10000"),
    **{form: (table("time,lat,lon,depth", [f"{when:{form}}" for when in WHEN], LAT, LON, D), {},
              "time = time") for form in ("%Y%m%d %H:%M:%S", "%H%M%SZ")},
    "as a time in six columns": lake(
        "lat,lon,co2,pH,depth,sats,temp,speed", "2000.5", "7.5", D, "9", "14", "3"),
    "a year called Y": table("Y,M,D,h,m,s,X,Y,depth", *SIX, EAST, NORTH, D),
    # Eastings.
    **{header: (table(header, EAST / FOOT, NORTH / FOOT, FT), {}, "(ft)") for header in (
        "Easting (ft),Northing (ft),Depth (ft)", "X_ft,Y_ft,Depth_ft", "x,y,depth\nft,ft,ft")},
    "centimetres": (metres("x,y,depth (cm)", 100 * D), {}, "says otherwise: --units cm,ft)"),
    "no unit": (metres("x,y,z", UP), {}, "(m, as nothing says otherwise: --units ft,ft)"),
    "UTM": (metres("UTM_E,Northing,depth"), {}, "y = Northing (m)"),
    "UTM beside feet": metres("Easting,UTM Y,depth_ft", FT),
    "a code": (metres("easting,northing,depth"), {"crs": "EPSG:32610"}),
    # Of a system in feet they are its own.
    **{header: (table(header, *STATE, FT), {"crs": "EPSG:2286"})
       for header in ("x,y,depth_ft", "x_ft,y_ft,depth_ft")},
    # Vehicles: the ground lies at depth and altitude together.
    **{names: (vehicle(names, own, D - own), {}, f"ground = {names.replace(',', ' + ')} (m)")
       for names, own in (
           ("depth,dvl_altitude", DIVES), ("depth,DVL altitude", HOLDS),
           ("depth,altitude_above_bottom", DIVES), ("Depth (m),DVL altitude (m)", HOLDS),
           ("vehicle_depth,altitude", HOLDS), ("depth,Height above seabed", DIVES))},
    "an altitude in feet": (
        vehicle("Depth (m),DVL altitude (ft)", DIVES, (D - DIVES) / FOOT), {}, "ground ="),
    "an elevation and an altitude": (
        vehicle("z,dvl_altitude", -DIVES, D - DIVES), {}, "ground = z - dvl_altitude"),
    **{f"with {', '.join(own)}": (
        vehicle("depth,altitude", HOLDS, D - HOLDS), {"columns": own}, "ground =")
       for own in ({"depth": "depth", "altitude": "altitude"}, {"altitude": "altitude"})},
    "heights of zero": vehicle("depth,altitude", D, 0.0 * T),
    # A height of an antenna does not count as an altitude.
    **{f"{names}, {kind}": vehicle(names, D, height) for kind, height in ANTENNA.items()
       for names in ("water_depth,altitude", "Sounding,altitude", "depth,gps_altitude")},
}  # fmt: skip
#: What nothing in the file says: the text, the question, and options; its first answer is right.
ASKED = {
    "castable sonar": (table("", some(5, LAT, "0.0"), some(5, LON, "0.0"), texts(D, ".3f"),
                             [str(int(when.timestamp() * 1000)) for when in WHEN], 17 + T % 3 / 10),
                       "depth=3"),
    "autopilot's integers": (table("TimeUS,Lat,Lng,Dist", 1_000_000 * T, *INTEGERS, D), "Dist"),
    "layers below the bottom": (lake("lat,lon,sub-bottom depth"), "is the depth"),
    "names of nobody": (lake("N_deg,E_deg,Bottom"), "depth=Bottom"),
    "degrees as x and y": (table("X,Y,DEPTH", LON, LAT, D), "look like degrees"),
    "pings in mm, and a gain": (lake("lat,lon,distance,gain_setting,ping", texts(1000 * D, ".0f"),
                                     3 + T % 3, T), "=distance"),
    "a time in six columns": (table("", *SIX, LAT, LON, np.sin(T / 20) - 2.5, D, separator="\t")
                              + 40 * ("\t" * 9 + "NaN\n"), "latitude=7 longitude=8 depth=10"),
    # Altitudes, speeds and satellites are functions of time; the depth is one of the place.
    "the depth is told by the place": (
        lake("", np.sin(T / 31), T % 13, D),
        "If latitude is 1 and longitude is 2 and depth is 5 .at 47.25 N, 122.40 W.: "),
    "a receiver's altitude": (lake("lat,lon,Altitude (m),Depth (cm)", 44 + np.sin(T / 31),
                                   texts(100 * D, ".0f")), "antenna's"),
    "minus depths": (lake("lat,lon,elevation"), "If it is a depth"),
    "a northing called x": (table("X,Y,depth", NORTH, EAST, D),
                            "If x is a northing and y an easting: --columns y=X x=Y"),
    "swapped in a system": (table("x,y,depth", NORTH, EAST, D),
                            "inside it if they are swapped.*--columns y=x x=y --crs",
                            {"crs": "EPSG:32610"}),
    "integers as x and y": (table("x,y,depth", *INTEGERS[::-1], D),
                            "farther than any place.*longitude=x latitude=y"),
    "swapped degrees": (table("lat,lon,depth", LON, LAT, D),
                        "If they are swapped: --columns longitude=lat latitude=lon"),
    "feet beside eastings": (
        table("x,y,depth_ft", EAST / FOOT - 1e6, NORTH / FOOT - 16e6, FT),
        "depths are in feet, and nothing says whether x and y are.*--units ft,ft; .*ft,m"),
    "a system in feet": (table("x,y,depth", *STATE, FT), "EPSG:2286 is in feet.*--units ft",
                         {"crs": "EPSG:2286"}),
    "no longitude": (table("time,northwards,latitude,depth", T, LON, LAT, D),
                     "--columns latitude=latitude longitude=northwards;?$"),
    "no latitude": (table("time,longitude,position,depth", T, LON, LAT, D),
                    "--columns latitude=position longitude=longitude;?$"),
    **{header: (sided(header, LON, LAT, D), "longitude=") for header in (
        "WGS84 Ost;WGS84 Nord;Wassertiefe (m)", "RW;HW;Tiefe", "L;B;Tiefe", "E;N;Tiefe",
        "Rechtswert;Hochwert;Tiefe", "Eastwards;Northwards;It's (m)")},
    "a vehicle that holds its depth": (vehicle("depth,altitude", HOLDS, D - HOLDS),
                                       "--columns depth=depth altitude=altitude; if.*depth=d"),
    "its elevation": (vehicle("depth,altitude", -HOLDS, D - HOLDS), "altitude=altitude"),
    **{f"antenna, {kind}": (vehicle("depth,altitude", D, height), "antenna's above the sea")
       for kind, height in ANTENNA.items()},
    "the ground's height": (vehicle("depth,altitude", D, 46.9 - D),
                            "If depth is that of the ground: --columns depth=depth"),
    "the ground twice": (vehicle("depth,dvl_altitude", D, D - 0.4), "may be a vehicle's"),
}  # fmt: skip
THREE = "x,y,z\n1,2,3\n"
#: What no option of ours makes right: the text, what is said, and options.
REFUSED = {
    "radians": (table("Latitude (rad),Longitude (rad),depth", texts(LATITUDE / 57),
                      texts(LONGITUDE / 57), D), "in the open sea.*no fix, or radians"),
    "units of rows": (lake("lat,lon,depth,unit", FT, ["ft", "m"] * 150),
                      "say ft and m for depths", {"units": "m"}),
    "another unit": (lake("lat,lon,depth_m,unit", FT, "ft"), "say ft and m for depths"),
    "an easting in feet": (metres("x_ft,y,depth"), r"x_ft \(ft\) and y \(no unit\): write both"),
    "degrees in feet": (lake(), "--units: latitude and longitude are in degr", {"units": "m,ft"}),
    "degrees of a system": (lake(), "--crs: expected x and y with it", {"crs": "EPSG:32610"}),
    **{name: (lake(f"lat,lon,{name}"), "which column is the depth. candidates: none$")
       for name in ("temp", "water (degC)", "level %", "Battery_V", "depth [knots]")},
    "no position": (table("ID,lake,depth_feet,area_acres", 1138400 + T % 7, "a", T, 2 * T),
                    r"\(no column looks like a position\)$"),
    "two numbers in a cell": (
        table("p;q;position;depth", T, 2 * T, of(texts(T % 3, ".1f"), ", 2.5"), T % 9,
              separator=";"), "no column looks like a position"),
    # As hydrographers' x y z in a system of a state of the USA.
    **{f"feet of a state, {header}, {east}": (
        table(header, east + 6.0 * (T % 12), north + 30.0 * (T // 12), UP, separator=" "),
        "not those of UTM.* or in feet: --crs EPSG:N")
       for header, east, north in (("x y z", 6e6, 2.1e6), ("", 6e6, 2.1e6), ("", 2.15e6, 6.15e5))},
    **{form: (lake("lat,lon,depth", [f'"{form.format(d)}"' for d in D]),
              r"not_a_number.*first row: 47\.25\d+ \| -122\.4\d+ \| -?6")
       for form in ("6{:09,.2f}", "-6{:09,.2f}")},
    # Ost, ouest, oeste: a lake in France would be mapped in Germany.
    **{f"O, {a}{b}": (table("lat,ns,lon,ew,depth", of(LAT, a), "" if a else "N", of(WEST, b),
                            "" if a else "O", D), r"got none .300 not_a_number.*first row: 47\.25")
       for a, b in (("", ""), ("N", "°O"))},
    "millions": (table("lat,lon,depth", *MILLIONS, D),
                 "Expected latitudes and longitudes in degrees"),
    "packed minutes": (table("lat,lon,depth", *PACKED, D),
                       "impossible_place.*degrees, minutes and"),
    "a number of the row": (table("latitude,longitude,depth", T, LON, D),
                            "209 of 300 rows have places or depths that cannot be"),
    "a vehicle's with another sound": (vehicle("depth,dvl_altitude", DIVES, D - DIVES),
                                       "sound_speed", {"sound_scale": 0.98}),
    "a torn line of JSON": ("\n".join([*LINES[:60], '{"lat": 4', *LINES]),
                            "expected JSON, .* line 62 column"),
    "deep JSON": (3000 * '{"a": ', "expected JSON, .*nested too deep"),
    "a sensor's place in JSON": (
        json.dumps({"offset": [{"x": 1.2, "y": 0, "z": -0.4}], "crew": [{"a": "b"}, {"a": "c"}]}),
        "got a: which columns"),
    "torn JSON": (json.dumps(POINTS, indent=1)[:-30], r"expected JSON, .* line \d{4} column"),
    "lists of JSON": (json.dumps({"lat": LAT, "lon": LON, "depth": LAT}),
                      "expected JSON, a list of objects or one in each line .*convert it to CSV"),
    "nothing": ("", "got no rows"),
    "zeros": (9 * lake("") + "\0\n", "got binary data"),
    "a cell without end": (lake() + '50.1,"' + "9.2,4\n50.1," * 20_000,
                           "cannot be read .row 302: field larger"),
    "a line without end": ("1,2,3," * 50_000, "more than 65536 characters"),
    "no row": ("x,y,z\n", "got none .no rows"),
    "an empty depth": ("x,y,z\n1,2,\n", "expected soundings, got none .1 not_a_number"),
    "names of nothing": ("a,b,c\n1,2,3\n", "log.csv: expected columns latitude, longitude, depth"),
    "no such column": (THREE, "expected a column 'h', got x,y,z", {"columns": {"z": "h"}}),
    "no such meaning": (THREE, "expected meanings x, y, latit", {"columns": {"height": "z"}}),
    "no such label": (THREE, "expected a column 'leg'", {"by": "leg"}),
    "keel of elevations": (THREE, "--keel: applies to depths only", {"keel": 0.5}),
    "no such system": (metres("x,y,z", UP), "expected a code such as", {"crs": "EPSG:nonsense"}),
}  # fmt: skip
#: Depths that are placed between positions, which come seldom or are written in whole metres.
PLACED = {
    "castable sonar", "phone, blanks between fixes", "echosounder's software", "track of a plotter",
    "depths and positions in rows of their own", "places in one cell that begin later",
    "waypoints of a plotter", "places in one cell", "minutes of three decimals in one cell",
}  # fmt: skip


@pytest.mark.parametrize("kind", READ)
def test_each_kind_becomes_the_lake(kind, read):
    case = READ[kind] if isinstance(READ[kind], tuple) else (READ[kind], {})
    text, options, said = (*case, "")[:3]
    found = read(text, **options)
    check(found, apart=1.0 if kind in PLACED else 0.25)
    assert len(found) > 0.8 * COUNT or "of their own" in kind
    if found.projection is None or "crs" in options:  # x and y lie where they are said to lie
        here = found.projection and found.projection.local_metres(LATITUDE, LONGITUDE)
        true = np.column_stack((EAST, NORTH)) if here is None else here
        np.testing.assert_allclose(found.xy, true[found.row], atol=0.02)
    written = found.source["understood"] + found.source["written"]
    assert said in written and ("ground =" in written) == ("ground" in said)


@pytest.mark.parametrize("kind", ASKED)
def test_what_nothing_says_is_asked_and_the_first_answer_is_right(kind, write, caplog):
    text, said, options = (*ASKED[kind], {})[:3]
    with pytest.raises(Question) as asked:
        read_soundings(write(text), ReadOptions(**options))
    assert re.search(said, str(asked.value)) and not caplog.records
    first = options_of(next(iter(asked.value.answers.values())))
    found = read_soundings(write(text), first)
    check(found, apart=1.0 if kind in PLACED else 0.25)
    if "six columns" in kind:
        found = read_soundings(write(text), ReadOptions({**first.columns, "time": "datetime"}))
        assert all(found.stamp_ns == [WHEN[i].timestamp() * 1e9 for i in found.row])


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_read_is_refused_without_advice(kind, read):
    text, said, options = (*REFUSED[kind], {})[:3]
    with pytest.raises(InputError) as refused:
        read(text, **options)
    assert re.search(said, str(refused.value)) and not getattr(refused.value, "answers", ())


@pytest.mark.parametrize("text", [lake(), json.dumps(POINTS)], ids=["text", "JSON"])
def test_a_file_that_takes_too_much_memory_is_named(text, read, monkeypatch):
    monkeypatch.setenv(VARIABLE, "0.01")
    with pytest.raises(InputError, match=r"log\.csv: its content takes"):
        read(text)


def test_what_the_user_says_is_not_questioned(read):
    text, own = lake("latitude,longitude,z"), vehicle("depth,altitude", HOLDS, D - HOLDS)
    assert (read(text, trusted=True).z > 0).all()
    for columns in ({}, {"z": "z"}):  # only named
        with pytest.raises(Question, match="100 % of the soundings above the water") as asked:
            read(text, columns)
        assert ("--columns depth=z" in asked.value.answers.values()) == (not columns)
    check(read(text, {"depth": "z"}))
    check(read(own, {"depth": "depth"}), HOLDS)


def test_integers_of_longitudes_that_rise_are_no_times(read):
    east = sorted(each.strip("-") for each in INTEGERS[1])
    assert read(table("lat,lon,depth", INTEGERS[0], east, D)).stamp_ns is None


def test_a_file_of_another_continent_may_have_its_columns_swapped(write):
    east = texts(LONGITUDE + 130)  # 7.6 E
    first = write(table("lat,lon,depth", LAT, east, D), "first.csv")
    second = write(table("lat,lon,depth", east, LAT, D + 0.1), "second.csv")
    with pytest.raises(Question, match=r"59\d\d km away. If they are swapped: --columns longitud"):
        read_soundings([first, second])
