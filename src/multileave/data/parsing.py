"""The compiled half of the SVMlight reader: lines of bytes into rows of numbers.

A decimal m * 10^e with m at most 2^53 and e from -22 to 22 is one multiplication or division of two numbers that
float64 represents exactly, so it is rounded once and correctly (Clinger, 1990). Other numbers are left to Python's own
`float`: the kernel only tells where they are. It is our own, as scikit-learn's reader takes only integer query ids.
"""

import numpy as np

from multileave.kernels import kernel

# Places in the state: where to continue, the next row, the number of lines read, the numbers of runs (consecutive
# documents of one query) and of values left to Python, the highest feature number, the start of an invalid token.
AT, ROW, LINE, RUNS, HARD, HIGHEST, TOKEN = range(7)

# Why the kernel stopped; after ROWS_FULL and WIDER the line can be read again with more room.
DONE, ROWS_FULL, WIDER = range(3)
BAD_LABEL, NO_QUERY, BAD_FEATURE, BAD_NUMBER, NOT_RISING, BAD_VALUE = range(3, 9)

MOST_LABEL = 256  # beyond all labels
MOST_NUMBER = 2**31  # beyond all feature numbers
MOST_EXPONENT = 100_000  # beyond all exponents
MOST_EXACT = 2**53
MOST_MANTISSA = 10**17  # so that one more digit fits into an int64
LONGEST = 18  # so many digits fit into an int64
POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])

TAB, NEWLINE, RETURN, BLANK, HASH, PLUS, MINUS, POINT, ZERO, COLON, UPPER_E, LOWER_E = b"\t\n\r #+-.0:Ee"
LETTER_Q, LETTER_I, LETTER_D = b"qid"


@kernel
def parse_lines(text, end, columns, whole, most, features, labels, runs, hard, state):  # type: ignore[no-untyped-def]
    """Read lines from text[state[AT]:end], which ends with a newline; return why it stopped.

    columns: the column of each feature number, -1 for those that are not wanted.
    whole: whether features beyond `columns` are wanted, so that it must be widened, rather than skipped.
    most: the highest label there may be.
    features: (rows, F), zeros from the next row on. labels: (rows,).
    runs: (n, 3), the row where documents of another query begin, and where its id is in the text.
    hard: (n, 5), row, column or -1, start and end in the text, and line of a number left to Python.
    """
    at, row, line = state[AT], state[ROW], state[LINE]
    run, left, highest = 0, 0, state[HIGHEST]
    id_start, id_end = 0, 0
    status = DONE
    while at < end:
        start, left_before = at, left
        while _is_blank(text[at]):
            at += 1
        if text[at] == NEWLINE or text[at] == HASH:
            at = _line_end(text, at) + 1
            line += 1
            continue
        if row == len(labels):
            at, status = start, ROWS_FULL
            break

        token = at
        label, at = _parse_label(text, at)
        if label < 0 or label > most:
            status = BAD_LABEL
            break
        while _is_blank(text[at]):
            at += 1
        token = at
        if text[at] == LETTER_Q and text[at + 1] == LETTER_I and text[at + 2] == LETTER_D and text[at + 3] == COLON:
            at += 4
        first = at
        while not _ends_token(text[at]):
            at += 1
        if token == first or at == first:
            status = NO_QUERY
            break
        if not _same(text, id_start, id_end, first, at):
            id_start, id_end = first, at
            runs[run, 0] = row
            runs[run, 1] = id_start
            runs[run, 2] = id_end
            run += 1

        previous = np.int64(0)
        while True:
            while _is_blank(text[at]):
                at += 1
            token = at
            if text[at] == NEWLINE or text[at] == HASH:
                break
            number, at = _digits(text, at, np.int64(0), MOST_NUMBER)
            if (text[at] != COLON and number < MOST_NUMBER) or at == token:
                status = BAD_FEATURE
                break
            if number < 1 or number >= MOST_NUMBER:
                status = BAD_NUMBER
                break
            if number <= previous:
                status = NOT_RISING
                break
            previous = number
            if number < len(columns):
                column = columns[number]
            elif whole:
                status = WIDER
                break
            else:
                column = -1
            kind, value, at = _parse_number(text, at + 1)
            if kind == 0:
                if column >= 0:
                    features[row, column] = value
            elif kind == 1:
                hard[left, 0] = row
                hard[left, 1] = column
                hard[left, 2] = token
                hard[left, 3] = at
                hard[left, 4] = line
                left += 1
            else:
                status = BAD_VALUE
                break
        highest = max(highest, previous)
        if status != DONE:
            if status < BAD_LABEL:
                at, left = start, left_before  # a run that begins here is recorded twice, which does no harm
            break
        labels[row] = label
        row += 1
        line += 1
        at = _line_end(text, at) + 1
    state[AT] = at
    state[ROW] = row
    state[LINE] = line
    state[RUNS] = run
    state[HARD] = left
    state[HIGHEST] = highest
    state[TOKEN] = token if status >= BAD_LABEL else 0
    return status


@kernel
def _is_blank(byte):  # type: ignore[no-untyped-def]
    return byte in (BLANK, TAB, RETURN)


@kernel
def _ends_token(byte):  # type: ignore[no-untyped-def]
    return byte in (BLANK, NEWLINE, TAB, RETURN, HASH)


@kernel
def _line_end(text, at):  # type: ignore[no-untyped-def]
    while text[at] != NEWLINE:
        at += 1
    return at


@kernel
def _same(text, start, end, other, other_end):  # type: ignore[no-untyped-def]
    """Return whether two tokens are equal."""
    if end - start != other_end - other:
        return False
    same = True
    for i in range(end - start):
        same = same and text[start + i] == text[other + i]
    return same


@kernel
def _digits(text, at, number, most):  # type: ignore[no-untyped-def]
    """Return a number with the digits from here appended, until it reaches `most`, and where they end."""
    digit = np.uint8(text[at] - ZERO)
    while digit < 10:
        if number < most:
            number = 10 * number + np.int64(digit)
        at += 1
        digit = np.uint8(text[at] - ZERO)
    return number, at


@kernel
def _parse_label(text, at):  # type: ignore[no-untyped-def]
    """Return an integer such as 2, +2 or 2.0, or -1, and where it ends."""
    if text[at] == PLUS:
        at += 1
    first = at
    label, at = _digits(text, at, np.int64(0), MOST_LABEL)
    if at == first:
        return np.int64(-1), at
    if text[at] == POINT:
        at += 1
        while text[at] == ZERO:
            at += 1
    if not _ends_token(text[at]):
        return np.int64(-1), at
    return label, at


@kernel
def _parse_number(text, at):  # type: ignore[no-untyped-def]
    """Return 0 for a number, 1 for one left to Python or 2 for no number; its value; where it ends."""
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += 1
    first = at
    mantissa, at = _digits(text, at, np.int64(0), MOST_MANTISSA)
    digits = at - first
    exponent = np.int64(0)
    if text[at] == POINT:
        at += 1
        first = at
        mantissa, at = _digits(text, at, mantissa, MOST_MANTISSA)
        exponent = np.int64(first - at)
        digits -= exponent
    if digits == 0:
        return 2, 0.0, at
    if text[at] == LOWER_E or text[at] == UPPER_E:
        at += 1
        smaller = text[at] == MINUS
        if smaller or text[at] == PLUS:
            at += 1
        first = at
        power, at = _digits(text, at, np.int64(0), MOST_EXPONENT)
        if at == first:
            return 2, 0.0, at
        exponent += -power if smaller else power
    if not _ends_token(text[at]):
        return 2, 0.0, at
    if digits > LONGEST or mantissa > MOST_EXACT or exponent < -22 or exponent > 22:
        return 1, 0.0, at
    value = np.float64(mantissa)
    value = value / POWERS[-exponent] if exponent < 0 else value * POWERS[exponent]
    return 0, -value if negative else value, at
