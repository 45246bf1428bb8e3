/* Copyright The gpuviz authors. Licensed under the Apache License, Version 2.0.
 *
 * How the recorded intervals of a thread nest: the compiled twin of `nest_in_python` in
 * gpuviz/model/nesting.py, which is the reference and says what the outputs mean. It knows no Python, so that one
 * library serves every version.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A row that has not ended where the walk stands. A child that ends a little after its parent (it "bleeds")
 * is held to its parent's end here, else it would contain what follows the parent. */
typedef struct {
    int64_t row;
    int64_t start;
    int64_t effective_end;
} open_row;

/* Intervals are half-open, so a row has ended where another starts at its end. Where both start together the
 * first holds the second all the same: a clock of 1 us records families of calls as zero-width rows. */
static bool holds(const open_row *above, int64_t start, int64_t end) {
    return above->effective_end > start || (above->start == start && end <= above->effective_end);
}

/* Whether `end` lies past `limit` by more than the tolerance; unsigned, so that large times never overflow. */
static bool ends_beyond(int64_t end, int64_t limit, int64_t tolerance) {
    return end > limit && (uint64_t)end - (uint64_t)limit > (uint64_t)tolerance;
}

/* Rows are sorted by thread, start, longest first. Returns 0, or -1 when memory ran out: the outputs are then
 * undefined. */
int gpuviz_nest(int64_t n, const int64_t *thread, const int64_t *start, const int64_t *end,
                int64_t tolerance, int32_t *parent, int32_t *depth, int32_t *level, int64_t *bleeding,
                int64_t *crossing) {
    size_t capacity = 64;
    size_t open = 0;
    open_row *stack = malloc(capacity * sizeof *stack);
    if (stack == NULL) {
        return -1;
    }
    *bleeding = 0;
    *crossing = 0;

    for (int64_t row = 0; row < n; row++) {
        if (row > 0 && thread[row] != thread[row - 1]) {
            open = 0;
        }
        while (open > 0 && !holds(&stack[open - 1], start[row], end[row])) {
            open--;
        }

        int64_t effective_end = end[row];
        parent[row] = -1;
        level[row] = 0;
        for (size_t position = open; position-- > 0;) {
            const open_row *above = &stack[position];
            if (holds(above, start[row], end[row]) &&
                !ends_beyond(end[row], above->effective_end, tolerance)) {
                parent[row] = (int32_t)above->row;
                level[row] = level[above->row] + 1;
                if (end[row] > above->effective_end) {
                    *bleeding += 1;
                    effective_end = above->effective_end;
                }
                break;
            }
        }

        if (open > 0) {
            const int64_t top = stack[open - 1].row;
            depth[row] = depth[top] + 1;
            *crossing += parent[row] != top;
        } else {
            depth[row] = 0;
        }

        if (open == capacity) {
            open_row *larger = realloc(stack, 2 * capacity * sizeof *stack);
            if (larger == NULL) {
                free(stack);
                return -1;
            }
            stack = larger;
            capacity *= 2;
        }
        stack[open++] = (open_row){row, start[row], effective_end};
    }

    free(stack);
    return 0;
}
