"""Situations of Weir itself: it is killed, restarted, upgraded, fails over, and is away for a while."""

from tests.kubernetes.week.environment import Environment

AWAY_STEPS = 3


def kill(env: Environment) -> str:
    """Kill the only instance at once, and start it again."""
    if len(env.replicas.running) != 1:
        return ""
    gone = env.replicas.end(at_once=True)
    env.replicas.start()
    return gone


def restart(env: Environment) -> str:
    """Stop the only instance in order, and start it again."""
    if len(env.replicas.running) != 1:
        return ""
    gone = env.replicas.end(at_once=False)
    env.replicas.start()
    return gone


def away(env: Environment) -> str:
    """Have no instance run while people go on: webhooks aren't called."""
    if len(env.replicas.running) != 1:
        return ""
    gone = env.replicas.end(at_once=env.chance.random() < 0.5)
    env.after(AWAY_STEPS, "Weir comes back", env.replicas.start)
    return gone


def stand_by(env: Environment) -> str:
    """Start a second instance, or stop the first of two in order: the other takes over."""
    if len(env.replicas.running) == 1:
        return f"{env.replicas.start()} stands by"
    return f"{env.replicas.end(at_once=False)} hands over" if env.replicas.running else ""


def fail_over(env: Environment) -> str:
    """Kill the first of two instances: the other takes over when the lease is free."""
    if len(env.replicas.running) != 2:
        return f"{env.replicas.start()} stands by" if len(env.replicas.running) == 1 else ""
    return env.replicas.end(at_once=True)
