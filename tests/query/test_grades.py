"""Which grades are accepted."""

import numpy as np
import pytest

from online_rank.query.grades import MAX_GRADE, require_grades


def test_grades_beyond_either_end_are_named():
    require_grades(np.array([0, MAX_GRADE]))
    for grade in (-1, MAX_GRADE + 1):
        with pytest.raises(
            ValueError, match=f"the grade of document 'b' is {grade}; grades are integers from 0 to {MAX_GRADE}"
        ):
            require_grades(np.array([0, grade]), ["a", "b"])
