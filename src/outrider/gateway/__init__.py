"""The hot path: authenticates, picks a replica, streams bytes.

One process, one event loop, asyncio protocols without tasks: a request costs callbacks. Nothing here imports the
control plane, a database, pydantic or a web framework (a contract that CI checks, indirect imports included).
"""
