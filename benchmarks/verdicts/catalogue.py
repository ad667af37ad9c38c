"""Which noises stand in the tables, under which heading, and which cells are simulated how often.

First group: machines for which a false report is bounded, per-build luck with them (confirmation with fresh builds is
meant for it). Second group: noise that depends on the side, which breaks the condition of the guarantee.
"""

from benchmarks.verdicts import scenarios
from benchmarks.verdicts.resampled import real_launches
from benchmarks.verdicts.scenarios import Noise

REAL = "real launches"
LUCK = "per-build luck"
FIRST_GROUP: dict[str, Noise] = {
    **scenarios.GUARANTEED,
    REAL: real_launches,
    LUCK: scenarios.ARM_DEPENDENT[LUCK],
}
SECOND_GROUP: dict[str, Noise] = {
    name: noise for name, noise in scenarios.ARM_DEPENDENT.items() if name not in FIRST_GROUP
}
SCENARIOS = FIRST_GROUP | SECOND_GROUP
# In these head is worse at a true mean change of zero: a "changed" is no false alarm.
TRUE_CHANGES = ("head lottery",)

FLOOR = 0.005
NOISES = (0.0015, 0.003, 0.005, 0.01, 0.02, 0.03, 0.05, 0.10)
EFFECTS = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.10)
USUAL_SD = 0.01
# As measured: what launches of the file that `real launches` draws from vary by.
REAL_SD = 0.0016
# Where power is drawn: a quiet machine and a restless one.
POWER_SCENARIOS = ("iid", "sticky clocks")
