"""`weir up --on kubernetes`: from its options to a scheduler that runs until a signal stops it."""

import asyncio
import os
import signal
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from structlog import get_logger

from weir import __version__
from weir.kubernetes.api.client import ApiClient
from weir.kubernetes.api.credentials import (
    NOT_VERIFIED,
    SERVICE_ACCOUNT,
    Credentials,
    Kubeconfig,
    NoCredentials,
    ServiceAccount,
)
from weir.kubernetes.api.errors import ApiError
from weir.kubernetes.api.server_clock import server_clock
from weir.kubernetes.crd.objects import QuotaObject
from weir.kubernetes.process.config_watcher import PATH as SETTINGS_PATH
from weir.kubernetes.process.config_watcher import ConfigWatcher
from weir.kubernetes.process.process_options import ProcessOptions
from weir.kubernetes.process.scheduler_process import SchedulerProcess
from weir.model.scenario import InvalidFile as FileRefused
from weir.notifications.notification_settings import NotificationSettings
from weir.scenario_io.policies import named_policy, read_settings
from weir.service import logging_setup
from weir.service.engine_build import engine_kind

if TYPE_CHECKING:
    pass

FAILED, WRONG_REQUEST = 1, 2
SWITCH_S = 0.0005
"""Switch interval of the interpreter: the thread that talks to the API server waits this long for control
after each read and write. With the usual 5 ms it sends few bindings while control works."""
_LOG = get_logger(__name__)


def access_of(options: ProcessOptions) -> Credentials:
    """Return the credentials: the service account inside a cluster, else those of a kubeconfig."""
    named = options.kubeconfig is not None or options.context is not None or "KUBECONFIG" in os.environ
    if not named and (SERVICE_ACCOUNT / "token").exists():
        return ServiceAccount()
    return Kubeconfig(options.kubeconfig, options.context)


def run(
    options: ProcessOptions,
    *,
    policy_file: Path | None = None,
    kinds_file: Path | None = None,
    notifications_file: Path | None = None,
    log_level: str = "info",
    log_format: logging_setup.Format = "json",
) -> int:
    """Schedule a cluster until SIGTERM or SIGINT; the exit code."""
    logging_setup.set_up(log_level, form=log_format)
    sys.setswitchinterval(SWITCH_S)
    try:
        if policy_file is not None:
            options.settings = replace(options.settings, policy=named_policy(str(policy_file)))
        if kinds_file is not None:
            options.settings = replace(options.settings, kinds=kinds_file.read_text("utf-8"))
        if notifications_file is not None:
            options.notifications = read_settings(NotificationSettings, notifications_file)
        asyncio.run(_serve(options))
    except FileRefused as error:
        print(f"weir: {error}", file=sys.stderr)
        return WRONG_REQUEST
    except NoCredentials as error:
        print(f"weir: {error}", file=sys.stderr)
        return FAILED
    except ExceptionGroup as several:
        from weir.kubernetes.process.server.webhook_server import CannotListen

        deaf = several.subgroup(CannotListen)
        if deaf is None:
            raise
        print(f"weir: {_innermost(deaf)}", file=sys.stderr)
        return FAILED
    return 0


def _innermost(error: BaseException) -> BaseException:
    """Return the first error of nested tasks."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _serve(options: ProcessOptions) -> None:
    async with AsyncExitStack() as stack:
        access = access_of(options)
        if not access.is_verified:
            _LOG.warning("api_server_not_verified", server=access.server, why=NOT_VERIFIED)
        api = await stack.enter_async_context(ApiClient(access))
        clock = await server_clock(api)
        stopped = asyncio.Event()
        settings = ConfigWatcher(options.scheduler, options.settings, await _configs(api), clock=clock)
        while not stopped.is_set():
            instance = SchedulerProcess(api, options, clock, settings)
            _stop_by_signal(instance, stopped)
            _LOG.info(
                "started",
                version=__version__,
                engine=engine_kind(),
                server=api.server,
                scheduler=options.scheduler,
                policy=settings.settings.policy.preset,
            )
            await _run(instance, stopped)


def _stop_by_signal(instance: SchedulerProcess, stopped: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()

    def stop(_signal: int, _frame: object) -> None:
        instance.deadline.begin()  # in the handler itself: the event loop may hang
        loop.call_soon_threadsafe(stopped.set)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


async def _run(instance: SchedulerProcess, stopped: asyncio.Event) -> None:
    """Run the scheduler until it is stopped, or until its settings need a restart."""
    running = asyncio.create_task(instance.run())
    ends = [asyncio.create_task(event.wait()) for event in (stopped, instance.outdated)]
    await asyncio.wait([running, *ends], return_when=asyncio.FIRST_COMPLETED)
    for task in ends:
        task.cancel()
    if running.done():
        running.result()
    await instance.close()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def _configs(api: ApiClient) -> list[QuotaObject]:
    """Return the settings that the cluster has; none where they can't be had, which the watch tries again."""
    try:
        return await api.list_all(SETTINGS_PATH, QuotaObject)
    except ApiError as error:
        _LOG.warning("settings_not_read", why=str(error))
        return []
