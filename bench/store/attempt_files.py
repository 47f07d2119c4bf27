"""Names of the files in an attempt's folder that each rank has one of."""


def log_name(rank: int) -> str:
    """The name of a rank's log."""
    return f"log-{rank}.txt" if rank else "log.txt"


def heartbeat_name(rank: int) -> str:
    """The name of a rank's heartbeat."""
    return f"heartbeat-{rank}" if rank else "heartbeat"
