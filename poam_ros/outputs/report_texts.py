"""What a report explains to its reader: the method, and the words that its numbers have."""

METHOD = (
    "The map is the predictive mean of a Gaussian process, trained on the soundings after false "
    "echoes were removed. Its uncertainty is 1.96 predictive standard deviations (95 %), including "
    "the noise of a sounding. It is not estimated from repeated soundings. Areas and volumes come "
    "from joint draws of the map, in which errors of neighbouring places are correlated. Blank "
    "cells lie outside the outline or too far from all soundings. Not to be used for navigation."
)
UNCERTAINTY_CAPTION = (
    "Half the width of the interval that holds a depth measured there with 95 % probability. Dots: "
    "soundings in the map."
)
TVU_NOTE = (
    "TVU (total vertical uncertainty): the 95 % uncertainty that the standard IHO S-44 allows a "
    "depth, by orders of survey from Exclusive (the strictest) to 2. An order also has other "
    "requirements."
)
HELD_OUT_NOTE = (
    "To test the map, parts of the soundings were kept out of it (held out) and predicted from the "
    "others."
)
CALIBRATED_NOTE = (
    "Held-out soundings took part in the calibration: what it corrected is also corrected in them."
)
CROSSINGS_CAPTION = (
    "Crossings, coloured by the difference of the two depths; red crosses: one of the two is left "
    "out as a false echo. Grey: soundings in the map, with the names of the survey lines where "
    "there is room{}."
)
CROSSINGS_NOTE = (
    "Differences of depth where two survey lines cross. The limit is sqrt(2) times the TVU "
    "(above), as both depths may be off. Median of a line (or day): its elevations minus those of "
    "the lines that it crosses."
)
LEVEL_ERROR = (
    "They include an error of the water level or the draught of {:g} m (standard deviation), "
    "shared by all soundings of a day."
)
NO_LEVEL_ERROR = (
    "They include no error of the water level or the draught, which all soundings of a day share."
)
