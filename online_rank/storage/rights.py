"""What the role of a service may do in PostgreSQL, and what nobody else may have done to its schema."""

from typing import Any

from online_rank.storage.folder import CheckpointError

#: The schema of a service's tables.
SCHEMA = "online_rank"
#: What is in the schema, by its kind and name, that somebody owns whom the service's role does not trust: itself, a role whose
#: member it is, and superusers are trusted.
_OF_OTHERS = f"""
SELECT kind, name, pg_get_userbyid(owner) FROM (
    SELECT 'schema', nspname, nspowner FROM pg_catalog.pg_namespace WHERE nspname = '{SCHEMA}'
    UNION ALL
    SELECT CASE relkind WHEN 'v' THEN 'view' WHEN 'i' THEN 'index' ELSE 'table' END, relname, relowner FROM pg_catalog.pg_class
    WHERE relnamespace = '{SCHEMA}'::regnamespace
    UNION ALL
    SELECT 'function', proname, proowner FROM pg_catalog.pg_proc WHERE pronamespace = '{SCHEMA}'::regnamespace
) AS found(kind, name, owner)
WHERE NOT pg_catalog.pg_has_role(current_user, owner, 'MEMBER')
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE oid = owner AND rolsuper)
LIMIT 1"""
#: What runs code of somebody when the service reads or writes: the service itself has none of these.
_CODE = f"""
SELECT kind, name, place FROM (
    SELECT 'trigger', tgname, tgrelid FROM pg_catalog.pg_trigger WHERE NOT tgisinternal
    UNION ALL
    SELECT 'rule', rulename, ev_class FROM pg_catalog.pg_rewrite WHERE rulename <> '_RETURN'
    UNION ALL
    SELECT 'policy', polname, polrelid FROM pg_catalog.pg_policy
) AS found(kind, name, place)
JOIN pg_catalog.pg_class ON pg_class.oid = place WHERE relnamespace = '{SCHEMA}'::regnamespace
UNION ALL
SELECT 'function', proname, 0 FROM pg_catalog.pg_proc WHERE pronamespace = '{SCHEMA}'::regnamespace
LIMIT 1"""


def grants(role: str, database: str = "DATABASE") -> str:
    """The statements with which an administrator gives a role what a service needs, and nothing more.

    Examples
    --------
    >>> print(grants("ranker", "shop"))
    CREATE ROLE "ranker" LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
    GRANT CONNECT ON DATABASE "shop" TO "ranker";
    CREATE SCHEMA online_rank AUTHORIZATION "ranker";
    REVOKE ALL ON SCHEMA online_rank FROM PUBLIC;
    """
    who, where = _quoted(role), _quoted(database)
    return (
        f"CREATE ROLE {who} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;\n"
        f"GRANT CONNECT ON DATABASE {where} TO {who};\n"
        f"CREATE SCHEMA {SCHEMA} AUTHORIZATION {who};\n"
        f"REVOKE ALL ON SCHEMA {SCHEMA} FROM PUBLIC;"
    )


def begin_schema(connection: Any) -> None:
    """Make the schema, if it is missing. Raises CheckpointError, with the statements that an administrator needs."""
    import psycopg

    if connection.execute(f"SELECT to_regnamespace('{SCHEMA}')").fetchone()[0] is not None:
        return
    try:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    except psycopg.errors.InsufficientPrivilege:
        role, database = connection.execute("SELECT current_user, current_database()").fetchone()
        raise CheckpointError(
            f"the role {role} may not make the schema {SCHEMA}; an administrator does it once:\n{grants(role, database)}"
        ) from None


def require_own(connection: Any, place: str) -> None:
    """Raise CheckpointError if others own something in the schema, or have put code there that runs as the service's role."""
    found = connection.execute(_OF_OTHERS).fetchone()
    if found is not None:
        role, database = connection.execute("SELECT current_user, current_database()").fetchone()
        raise CheckpointError(
            f"{place}: the {found[0]} {found[1]} belongs to the role {found[2]}, which could let code run as {role}: nothing "
            f"was read or written. A schema for a service is made like this:\n{grants(role, database)}"
        )
    found = connection.execute(_CODE).fetchone()
    if found is not None:
        raise CheckpointError(
            f"{place}: the {found[0]} {found[1]} in the schema {SCHEMA} is none of this library's and would run as the role of "
            "the service: nothing was read or written. Drop it"
        )


def require_sessions(place: str, *connections: Any) -> None:
    """Raise CheckpointError if a pooler gives one session of the database to several connections."""
    sessions = [connection.execute("SELECT pg_backend_pid()").fetchone()[0] for connection in connections]
    if len({*sessions}) < len(sessions):
        raise CheckpointError(
            f"{place}: a pooler gives one session to several connections; it must keep sessions (pool_mode = session)"
        )


def _quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'
