"""What the metadata of a file of parquet say of the memory that its rows take."""

from typing import Any

from online_rank.stream.bounded import CELLS, TEXT
from online_rank.stream.values import arrow

#: The length of a text that many rows may share, each with a copy.
_SHORT = 256


def shared_texts(file: Any) -> list[str]:
    """The columns of text in a file of parquet of which it may hold one long text for many rows."""
    metadata, schema, types = file.metadata, file.schema_arrow, arrow("pyarrow.types")
    texts = {field.name for field in schema if types.is_string(field.type) or types.is_large_string(field.type)}
    columns = [metadata.row_group(i).column(j) for i in range(metadata.num_row_groups) for j in range(metadata.num_columns)]
    return [name for name in dict.fromkeys(one.path_in_schema for one in columns if _may_share(one)) if name in texts]


def _may_share(column: Any) -> bool:
    """Whether a part of a column of parquet may have a long text for many rows: by its size, and its first and last text."""
    if not any("DICTIONARY" in name for name in column.encodings):
        return False
    known = column.statistics if column.is_stats_set else None
    ends = (known.min, known.max) if known is not None and known.has_min_max else None
    is_short = ends is not None and all(isinstance(end, str) and len(end) <= _SHORT for end in ends)
    return not is_short or column.total_uncompressed_size < column.num_values


def rows_at_once(metadata: Any) -> int:
    """The most rows of a file of parquet that are read at once, by the number of its columns, and its bytes a row."""
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    longest = max((group.total_byte_size // max(1, group.num_rows) for group in groups), default=0)
    return max(1, min(CELLS // max(1, metadata.num_columns), TEXT // max(1, longest)))
