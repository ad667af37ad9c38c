"""Every threshold of the client, with its reason. Numbers, and what follows from them alone."""

# A request that failed took load off the server and left no time behind, so those that remain look better. One in a
# hundred moves a median by less than the noise of a launch; below a hundred requests none may fail.
MAX_FAILED_SHARE = 0.01
# An answer of another length than asked is other work. Same reason, same share.
MAX_SHORT_SHARE = 0.01
# How late the client read because it waited for a processor: of first tokens over the TTFT (medians), of all reads over
# the time between two reads of a stream (means). Above 3 % that is as large as what is looked for. With one stream the
# second is the share of its time that the client waited; one starved in earnest waits for 60 % and more.
# Below a tenth of a millisecond nothing is said: that much comes and goes on any machine and shifts no median.
MAX_WAIT_SHARE = 0.03
MIN_LATE_S = 0.0001
# CPU time of the client over the time measured: a reader that is busy for most of the time has a queue of its own.
MAX_CPU_SHARE = 0.8
# A whole answer in one go at its end: less than 0.1 ms a token is faster than any model, with the first token at 90 %
# of the way. Answers below eight tokens may honestly come at once (a speculative cycle or two).
MIN_TPOT_S = 0.0001
LATE_FIRST_SHARE = 0.9
MIN_SHAPE_TOKENS = 8
MAX_SHAPE_SHARE = 0.05
# Open loop: a request later than this was not sent by the plan. The event loop's timer is good to a millisecond or
# two; one request in twenty may be later, more is another load.
LATE_SEND_S = 0.005
MAX_LATE_SHARE = 0.05
# Open loop: the queue grows where requests of the last third took twice as long as those of the first, or where more
# are unfinished in the last third than in the middle one by three standard deviations of a steady queue.
MIN_OPEN_REQUESTS = 9
MAX_GROWTH_FACTOR = 2.0
MAX_GROWTH_SIGMA = 3.0
# Client against the server's own histograms. The client's clock begins before the request is parsed and ends when the
# bytes are read: a few milliseconds on a busy host. Beyond a quarter, and these seconds, one of the two is wrong.
MAX_SERVER_FACTOR = 1.25
TTFT_SLACK_S = 0.010
TPOT_SLACK_S = 0.0005
# Bytes of one answer that are kept before it is given up. A server that repeats the answer in each event sends
# n * n / 2 tokens of n, each with its text and its id; an event has a frame of its own beside them.
SPARE_BYTES, EVENT_BYTES, TOKEN_BYTES = 16 * 2**20, 4096, 64


def answer_bytes(num_tokens: int) -> int:
    """More than an answer of so many tokens can have; what is longer has lost its end."""
    return SPARE_BYTES + EVENT_BYTES * num_tokens + TOKEN_BYTES * num_tokens * num_tokens // 2
