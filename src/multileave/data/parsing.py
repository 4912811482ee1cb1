"""The compiled half of the SVMlight reader: lines of bytes into rows of numbers.

A decimal m * 10^e with m at most 2^53 and e from -22 to 22 is one multiplication or division of two numbers that
float64 represents exactly, so it is rounded once and correctly (Clinger, 1990). Other numbers are left to Python's own
`float`: the kernel only tells where they are. It is our own, as scikit-learn's reader takes only integer query ids.
"""

import numpy as np

from multileave.kernels import kernel

# Whether all lines were read, there was no room for more, or what was wrong with a token.
DONE, ROWS_FULL, BAD_LABEL, NO_QUERY, BAD_FEATURE, BAD_NUMBER, TOO_WIDE, NOT_RISING, BAD_VALUE = range(9)

MOST_LABEL = 256  # beyond all labels
MOST_NUMBER = 2**31  # beyond all feature numbers
MOST_FEATURES = 100_000  # if all are read, as the table has a column for each
MOST_EXPONENT = 100_000  # beyond all exponents
MOST_EXACT = 2**53
MOST_MANTISSA = 10**17  # so that one more digit fits into an int64
LONGEST = 18  # so many digits fit into an int64
POWERS = np.array([float(f"1e{exponent}") for exponent in range(23)])

TAB, NEWLINE, RETURN, BLANK, HASH, PLUS, MINUS, POINT, ZERO, COLON, UPPER_E, LOWER_E = b"\t\n\r #+-.0:Ee"
LETTER_Q, LETTER_I, LETTER_D = b"qid"


@kernel
def parse_lines(text, columns, widest, most, features, labels, runs, hard):  # type: ignore[no-untyped-def]
    """Read text that ends with a newline; return the status and how much was read.

    columns: the column of each feature number, -1 for those that are not wanted, as are those beyond.
    widest: the highest feature number there may be; most: the highest label.
    features: (rows, F), zeros, or what the same text filled in before. labels: (rows,).
    runs: (n, 3), the row where documents of another query begin, and where its id is in the text.
    hard: (n, 5), row, column or -1, start and end in the text, and line of a number left to Python.

    Returns the status, the start of the invalid token, if any, and the numbers of lines, of rows, of runs and of hard
    numbers, and the highest feature number.
    """
    at, token, line, row, run, left = 0, 0, 0, 0, 0, 0
    highest = np.int64(0)
    id_start, id_end = 0, 0
    status = DONE
    while at < len(text):
        while _is_blank(text[at]):
            at += 1
        if text[at] == NEWLINE or text[at] == HASH:
            at = _line_end(text, at) + 1
            line += 1
            continue
        if row == len(labels):
            status = ROWS_FULL
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
            if number > widest:
                status = TOO_WIDE
                break
            previous = number
            column = columns[number] if number < len(columns) else -1
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
        if status != DONE:
            break
        highest = max(highest, previous)
        labels[row] = label
        row += 1
        line += 1
        at = _line_end(text, at) + 1
    return status, token, line, row, run, left, highest


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
