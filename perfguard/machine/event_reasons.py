"""What holds a GPU's clocks down: the bits of the mask. Pure."""

# From the reference of the NVML "clocks event reasons". Bindings name fewer of them than drivers send.
BITS = {
    0x1: "idle",
    0x2: "clocks_setting",  # application or locked clocks
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clock",
    0x200: "board_limit",
    0x400: "reliability",
}
IDLE, CLOCKS_SETTING, SW_POWER_CAP, HW_SLOWDOWN = 0x1, 0x2, 0x4, 0x8
SW_THERMAL, HW_THERMAL, HW_POWER_BRAKE = 0x20, 0x40, 0x80
THERMAL = SW_THERMAL | HW_THERMAL


def event_names(mask: int) -> list[str]:
    """The names of the bits that are set, lowest first; an unknown bit as its number in hex. [] for 0."""
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return [BITS.get(bit, hex(bit)) for bit in bits]
