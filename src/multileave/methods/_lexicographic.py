"""The lexicographic programme of om in floats, compiled; `_lexicographic_exact` is its definition.

Given N points a_l (a list's deviations) and costs s_l, find the probabilities p on the simplex that

    (1) minimise |sum of p_l a_l|^2,
    (2) among those have the least sum of p_l s_l,
    (3) among those the least sum of p_l^2, which leaves one.

(1) is the point of a polytope nearest to the origin, by Wolfe's method [wolfe1976] on the Gram matrix, with a Cholesky
factor that grows and shrinks by a row. Usually that leaves one p: no list outside the support has the multiplier 0.
Otherwise (2) is solved by the simplex method, started from the support; columns of positive reduced cost are dropped;
and (3) is solved on the others by Newton's method on its dual. Every loop has a limit; if it is reached, the solution
of the stage before is kept.

The solver is our own because SciPy cannot be called from compiled code: om takes 4 to 10 microseconds per impression in
a study. It is one file, as its stages share their factors and workspace.

Numba compiles a kernel again for a variable that starts as a literal, hence ``np.int64(first)``.
"""

import math

import numpy as np

from multileave.kernels import kernel

# Relative to the data's scale. Exact ties are within 1e-15, and other values are usually far from it.
TIGHT = 1e-12  # a multiplier below -TIGHT is worth a step
LOOSE = 1e-9  # a multiplier, reduced cost or pivot below LOOSE is 0


def solver_workspace(lists: int, dimensions: int) -> tuple[int, int]:
    """Return how many integers and floats of scratch the kernels below need."""
    most = min(lists, dimensions + 1) + 1
    first = lists + 2 * most + most * most + lists * lists
    second = (dimensions + 1) * lists + 2 * lists + 4 * most + most * most
    return lists + most, max(first, second)


@kernel
def dot(a, b):  # type: ignore[no-untyped-def]
    """Return the product of two vectors, in four sums that the processor can add in parallel."""
    s0 = s1 = s2 = s3 = 0.0
    even = len(a) // 4 * 4
    for i in range(0, even, 4):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
    for i in range(even, len(a)):
        s0 += a[i] * b[i]
    return (s0 + s1) + (s2 + s3)


@kernel
def cholesky(factor, first, size, tiny):  # type: ignore[no-untyped-def]
    """Replace rows first to size of a matrix by its Cholesky factor; False if it is singular."""
    for i in range(first, size):
        for j in range(i + 1):
            left = factor[i, j]
            for k in range(j):
                left -= factor[i, k] * factor[j, k]
            if j < i:
                factor[i, j] = left / factor[j, j]
            elif left > tiny:
                factor[i, i] = math.sqrt(left)
            else:
                return False
    return True


@kernel
def cholesky_solve(factor, size, x):  # type: ignore[no-untyped-def]
    """Solve factor . factor' . x = x in place."""
    for i in range(size):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]
    for i in range(size - 1, -1, -1):
        x[i] /= factor[i, i]
        for j in range(i):
            x[j] -= factor[i, j] * x[i]


@kernel
def fill_gram_row(points, row, known, gram):  # type: ignore[no-untyped-def]
    """Fill a row of the Gram matrix, of which the diagonal is there, unless it is there already."""
    if known[row] == 0:
        known[row] = 1
        for i in range(len(points)):
            if i != row:
                gram[row, i] = gram[i, row] if known[i] else dot(points[row], points[i])


@kernel
def affine_nearest(gram, scale, corral, first, size, factor, aim):  # type: ignore[no-untyped-def]
    """Fill `aim` with the weights, of sum 1, of the point nearest to the origin in the corral's affine hull.

    Rows of the factor before the first are still right. False if the corral is not independent.
    """
    for i in range(first, size):
        for j in range(i + 1):
            factor[i, j] = gram[corral[i], corral[j]] + scale
    if not cholesky(factor, first, size, TIGHT * scale):
        return False
    aim[:size] = 1.0
    cholesky_solve(factor, size, aim)
    total = 0.0
    for i in range(size):
        total += aim[i]
    for i in range(size):
        aim[i] /= total
    return True


@kernel
def move_to_nearest(gram, scale, corral, size, factor, aim, weights):  # type: ignore[no-untyped-def]
    """Move to the nearest point of the corral's hull, dropping points; return how many are left.

    The last point is new, with weight 0. Minus how many, if the corral has become dependent: go no further.
    """
    first = size - 1
    while affine_nearest(gram, scale, corral, np.int64(first), size, factor, aim):
        step = 1.0
        leaving = -1
        for i in range(size):
            if aim[i] <= 0.0 and weights[i] <= step * (weights[i] - aim[i]):
                step = weights[i] / (weights[i] - aim[i]) if weights[i] > 0.0 else 0.0
                leaving = i
        for i in range(size):
            weights[i] += step * (aim[i] - weights[i])
        if leaving < 0:
            return size
        size -= 1
        for i in range(leaving, size):
            corral[i] = corral[i + 1]
            weights[i] = weights[i + 1]
        first = leaving
    return -(size - 1 if size > 1 and weights[size - 1] == 0.0 else size)


@kernel
def nearest_to_origin(points, p, face, work_i, work_f):  # type: ignore[no-untyped-def]
    """Solve (1) for points f8[N, D]; return the squared distance, c and n.

    p: out, a solution. face: out, first the c points of positive weight, which are independent, then
    those that may have weight in another solution, n in all.
    """
    count, dimensions = points.shape
    most = min(count, dimensions + 1) + 1
    known, corral = work_i[:count], work_i[count : count + most]
    products = work_f[:count]  # of each point with the nearest point so far
    weights = work_f[count : count + most]
    aim = work_f[count + most : count + 2 * most]
    used = count + 2 * most
    factor = work_f[used : used + most * most].reshape(most, most)
    used += most * most
    gram = work_f[used : used + count * count].reshape(count, count)  # in rows, as they are needed
    scale = 0.0
    entering = 0
    for i in range(count):
        known[i] = 0
        gram[i, i] = dot(points[i], points[i])
        scale = max(scale, gram[i, i])
        if gram[i, i] < gram[entering, entering]:
            entering = i
    if scale == 0.0:
        scale = 1.0
    size = 0
    stalled = 0
    square = math.inf
    for _ in range(20 * count + 100):
        fill_gram_row(points, np.int64(entering), known, gram)
        corral[size] = entering
        weights[size] = 0.0 if size else 1.0
        left = move_to_nearest(gram, scale, corral, size + 1, factor, aim, weights)
        size = abs(left)
        for i in range(count):
            products[i] = 0.0
        for j in range(size):
            for i in range(count):
                products[i] += weights[j] * gram[corral[j], i]
        before, square = square, 0.0
        for j in range(size):
            square += weights[j] * products[corral[j]]
        stalled = stalled + 1 if square >= before else 0  # the last digits, or a cycle of rounding
        entering = -1
        least = square - TIGHT * scale
        for i in range(count):
            if products[i] < least:
                least = products[i]
                entering = i
        if entering < 0 or left < 0 or size == most or stalled > 30:
            break
    p[:] = 0.0
    for j in range(size):
        p[corral[j]] = weights[j]
        face[j] = corral[j]
        products[corral[j]] = math.inf
    n = size
    for i in range(count):
        if products[i] < square + LOOSE * scale:
            face[n] = i
            n += 1
    return (square if square > TIGHT * scale else 0.0), size, n


@kernel
def eliminate(table, rows, columns, row, column):  # type: ignore[no-untyped-def]
    """Make a column of the table the unit vector of a row."""
    pivot = table[row, column]
    for j in range(columns):
        table[row, j] /= pivot
    table[row, column] = 1.0
    for i in range(rows):
        times = table[i, column]
        if i != row and times != 0.0:
            for j in range(columns):
                table[i, j] -= times * table[row, j]
            table[i, column] = 0.0


@kernel
def enter_basis(table, rows, columns, m, column, basis):  # type: ignore[no-untyped-def]
    """Bring a column into the basis by the best row below the first m; False if it depends on these."""
    if m == rows:
        return False
    row = m
    for i in range(m, rows):
        if abs(table[i, column]) > abs(table[row, column]):
            row = i
    if abs(table[row, column]) < LOOSE:
        return False
    for j in range(columns):
        table[m, j], table[row, j] = table[row, j], table[m, j]
    eliminate(table, rows, columns, m, column)
    basis[m] = column
    return True


@kernel
def fill_basis(points, face, c, n, table, basis):  # type: ignore[no-untyped-def]
    """Fill the table with the points of the face and the sum of p, reduced to a basis; return its rows m.

    The first c columns are in the basis. -1 if they are not independent.
    """
    rows = points.shape[1] + 1
    scale = 0.0
    for j in range(n):
        for i in range(rows - 1):
            table[i, j] = points[face[j], i]
            scale = max(scale, abs(table[i, j]))
        table[rows - 1, j] = 1.0
    for i in range(rows - 1):
        for j in range(n):
            table[i, j] /= scale if scale > 0.0 else 1.0
    m = np.int64(0)  # not the literal 0, for which `enter_basis` would be compiled once more
    for j in range(n):
        if enter_basis(table, rows, n, m, j, basis):
            m += 1
        elif j < c:
            return -1
    return m


@kernel
def cheapest(table, m, n, costs, face, basis, x, prices):  # type: ignore[no-untyped-def]
    """Solve (2) by the simplex method: the largest gain first, then, lest it cycle, Bland's rule.

    x: the basic solution, in and out. prices: out, the reduced costs; returned: what counts as 0 there.
    """
    scale = 0.0
    for j in range(n):
        scale = max(scale, abs(costs[face[j]]))
    zero = LOOSE * scale
    for turn in range(60 * (m + n) + 100):
        for j in range(n):
            prices[j] = costs[face[j]]
        for i in range(m):
            price = costs[face[basis[i]]]
            for j in range(n):
                prices[j] -= price * table[i, j]
        entering = -1
        least = -zero
        for j in range(n):
            if prices[j] < least:
                entering = j
                if turn > 10 * (m + n):
                    break
                least = prices[j]
        if entering < 0:
            break
        leaving = -1
        step = math.inf
        for i in range(m):
            if table[i, entering] > LOOSE:
                ratio = x[i] / table[i, entering]
                if ratio < step or (ratio == step and basis[i] < basis[leaving]):
                    step, leaving = ratio, i
        if leaving < 0:
            break
        for i in range(m):
            x[i] = max(x[i] - step * table[i, entering], 0.0)
            if x[i] < 1e-15:
                x[i] = 0.0
        x[leaving] = step
        eliminate(table, m, n, np.int64(leaving), np.int64(entering))
        basis[leaving] = entering
    return zero


@kernel
def dual_value(table, m, n, x, dual, q):  # type: ignore[no-untyped-def]
    """Fill q with max(table' . dual, 0), and return dual . x - |q|^2 / 2."""
    value = dot(dual, x)
    for j in range(n):
        q[j] = 0.0
        for i in range(m):
            q[j] += table[i, j] * dual[i]
        q[j] = max(q[j], 0.0)
        value -= q[j] * q[j] / 2.0
    return value


@kernel
def least_squares(table, m, n, x, q, factor, dual, step, ahead):  # type: ignore[no-untyped-def]
    """Solve (3): fill q with the least squares among q >= 0 with table . q = x; False if it was not found.

    q = max(table' . dual, 0) for the dual that maximises `dual_value`, which is concave and quadratic in pieces. A step
    of Newton's method is halved until the value rises, or taken in full near the end, where rounding would hide that.
    """
    scale = 1.0
    dual[:] = 0.0
    value = dual_value(table, m, n, x, dual, q)
    left = math.inf
    for turn in range(20 * n + 100):
        before, left = left, 0.0
        for i in range(m):
            step[i] = x[i] - dot(table[i, :n], q[:n])
            left = max(left, abs(step[i]))
            scale = max(scale, abs(x[i]))
        near = left <= LOOSE * scale
        if near and (left <= TIGHT * scale or left >= before):
            return True
        for i in range(m):
            for k in range(i + 1):
                factor[i, k] = TIGHT if i == k else 0.0
                for j in range(n):
                    if turn == 0 or q[j] > 0.0:
                        factor[i, k] += table[i, j] * table[k, j]
        if not cholesky(factor, np.int64(0), m, 0.0):
            return False
        cholesky_solve(factor, m, step)
        share = 2.0
        larger = -math.inf
        while share > 1e-20 and (larger <= value and not (near and share < 2.0)):
            share /= 2.0
            for i in range(m):
                ahead[i] = dual[i] + share * step[i]
            larger = dual_value(table, m, n, x, ahead, q)
        value = larger
        for i in range(m):
            dual[i] = ahead[i]
    return False


@kernel
def refine(points, costs, p, face, c, n, work_i, work_f):  # type: ignore[no-untyped-def]
    """Solve (2) and (3) from a solution p of (1), its face, c and n; p: in and out."""
    count, dimensions = points.shape
    most = min(count, dimensions + 1) + 1
    basis = work_i[:most]
    used = (dimensions + 1) * n
    table = work_f[:used].reshape(dimensions + 1, n)
    prices, q = work_f[used : used + n], work_f[used + n : used + 2 * n]
    used += 2 * n
    vectors = work_f[used : used + 4 * most].reshape(4, most)
    used += 4 * most
    factor = work_f[used : used + most * most].reshape(most, most)
    m = fill_basis(points, face, c, n, table, basis)
    if m < 0:
        return
    x, dual, step, ahead = vectors[0, :m], vectors[1, :m], vectors[2, :m], vectors[3, :m]
    for i in range(m):
        x[i] = p[face[basis[i]]] if i < c else 0.0
    zero = cheapest(table, m, n, costs, face, basis, x, prices)
    p[:] = 0.0
    for i in range(m):
        p[face[basis[i]]] = x[i]
        prices[basis[i]] = 0.0
    kept = 0
    for j in range(n):
        if prices[j] <= zero:
            face[kept] = face[j]
            for i in range(m):
                table[i, kept] = table[i, j]
            kept += 1
    if kept > m and least_squares(table, m, np.int64(kept), x, q, factor, dual, step, ahead):
        p[:] = 0.0
        for j in range(kept):
            p[face[j]] = max(q[j], 0.0)
