"""`weir install` and `weir uninstall`: what their steps do to a host, in which order, and how often."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cli.fake_host import FakeHost, files_of

from weir.cli.install import command, plan, program, settings, unit
from weir.cli.install.host import InstallFailed
from weir.cli.install.pool_processes import pool_processes, remove_groups
from weir.cli.install.settings import InstallSettings, checked, chosen, recorded
from weir.cli.install.steps import Step, remove_file, remove_tree, write_file

UNIT = "[Service]\nExecStart=/opt/weir/bin/weir node\n"
ALL_LEFT_OUT = dict.fromkeys(("user", "home", "allow_group", "uid_min", "new_privileges"))


def steps_of(host: FakeHost, text: str | None = UNIT, **changed: object) -> list[Step]:
    """Return the steps of an installation on a host."""
    named = plan.with_made_accounts(replace(recorded(host) or InstallSettings(), **changed), host)  # type: ignore[arg-type]
    return plan.install_steps(
        named,
        administrator="mia",
        link=Path("/opt/weir/bin/weir"),
        unit=text,
        running=unit.is_running(host),
    )


def to_do(steps: list[Step], host: FakeHost) -> list[str]:
    return [str(step) for step in steps if not step.is_done(host)]


class TestInstall:
    def test_dry_run_says_all_steps_and_changes_nothing(
        self, host: FakeHost, capsys: pytest.CaptureFixture[str]
    ) -> None:
        steps = steps_of(host)
        assert command.show_plan(steps, host) == 0
        said = capsys.readouterr().out.splitlines()
        assert said == [f"  to do  {step}" for step in steps]
        assert not files_of(host)
        assert not [line for line in host.log if " show " not in line]

    def test_what_a_dry_run_says_is_what_is_done(
        self, host: FakeHost, capsys: pytest.CaptureFixture[str]
    ) -> None:
        planned = to_do(steps_of(host), host)
        command.carry_out(steps_of(host), host)
        assert capsys.readouterr().out.splitlines() == planned
        assert host.users["weir"]
        assert host.groups["weir-admin"] == {"mia"}
        assert unit.UNIT in host.enabled
        assert unit.UNIT in host.started_s
        assert set(files_of(host)) == {
            "/etc/weir/install.json",
            "/etc/systemd/system/weir.service",
            "/usr/local/bin/weir",
            *map(str, plan.COMPLETIONS),
        }

    def test_second_run_changes_nothing(self, host: FakeHost, capsys: pytest.CaptureFixture[str]) -> None:
        command.carry_out(steps_of(host), host)
        before, log = files_of(host), [line for line in host.log if " show " not in line]
        capsys.readouterr()
        assert not command.carry_out(steps_of(host), host)
        assert not capsys.readouterr().out
        assert files_of(host) == before
        assert [line for line in host.log if " show " not in line] == log

    def test_new_program_writes_the_unit_and_restarts_only(self, host: FakeHost) -> None:
        command.carry_out(steps_of(host), host)
        host.started_s[unit.UNIT] = 1.0
        steps = steps_of(host, UNIT + "# newer\n")
        assert to_do(steps, host) == [
            "Write /etc/systemd/system/weir.service (the service), and let systemd read it.",
            "Restart weir.service; jobs run on.",
        ]
        command.carry_out(steps, host)
        assert "systemctl restart weir.service" in host.log
        assert not to_do(steps_of(host, UNIT + "# newer\n"), host)

    @pytest.mark.parametrize("fails", ["groupadd", "useradd", "usermod", "daemon-reload", "enable", "start"])
    def test_run_that_failed_is_continued_by_the_next(self, host: FakeHost, fails: str) -> None:
        host.fails = fails
        with pytest.raises(InstallFailed):
            command.carry_out(steps_of(host), host)
        host.fails = ""
        command.carry_out(steps_of(host), host)
        assert not to_do(steps_of(host), host)
        made = recorded(host)
        assert made is not None
        assert (made.made_users, made.made_groups) == (("weir",), ("weir-admin",))

    def test_unit_that_was_written_and_not_started_is_started_by_the_next_run(self, host: FakeHost) -> None:
        command.carry_out(steps_of(host), host)
        host.started_s[unit.UNIT] = 1.0
        host.fails = "restart"
        with pytest.raises(InstallFailed):
            command.carry_out(steps_of(host, UNIT + "# newer\n"), host)
        host.fails = ""
        assert to_do(steps_of(host, UNIT + "# newer\n"), host) == ["Restart weir.service; jobs run on."]

    def test_without_systemd_everything_else_is_done(self, host: FakeHost) -> None:
        host.version = None
        command.carry_out(steps_of(host, None), host)
        assert not [line for line in host.log if line.startswith("systemctl")]
        assert "/etc/systemd/system/weir.service" not in files_of(host)

    def test_account_that_existed_is_not_the_installations_own(self, host: FakeHost) -> None:
        host.users["weir"] = 700
        command.carry_out(steps_of(host), host)
        made = recorded(host)
        assert made is not None
        assert made.made_users == ()
        assert made.made_groups == ("weir-admin",)

    def test_program_of_another_package_is_not_replaced(self, host: FakeHost) -> None:
        other = host.path(plan.PROGRAM)
        other.parent.mkdir(parents=True)
        other.write_text("#!/bin/sh\n")
        with pytest.raises(InstallFailed, match="another program"):
            command.carry_out(steps_of(host), host)
        assert other.read_text() == "#!/bin/sh\n"

    def test_file_in_place_of_a_link_and_link_in_place_of_a_file_are_seen(self, host: FakeHost) -> None:
        secret = host.path(Path("/secret"))
        secret.parent.mkdir(parents=True, exist_ok=True)
        secret.write_text("kept")
        secret.chmod(0o600)
        path = Path("/etc/x")
        step = write_file(path, "text", "a test")
        host.path(Path("/etc")).mkdir()
        host.path(path).symlink_to(secret)
        assert not step.is_done(host)
        step.do(host)
        assert (secret.read_text(), host.path(path).read_text()) == ("kept", "text")
        assert stat.S_IMODE(host.path(path).lstat().st_mode) == 0o644
        assert step.is_done(host)
        host.path(path).chmod(0o666)
        assert not step.is_done(host), "others could change it"

    def test_completion_scripts_complete_at_the_first_call(self) -> None:
        zsh = next(text for path, text in plan.COMPLETIONS.items() if path.name == "_weir")
        assert zsh.startswith("#compdef weir\n")
        assert zsh.rstrip().endswith('_weir "$@"')


class TestUninstall:
    def test_removal_undoes_the_installation(self, host: FakeHost) -> None:
        command.carry_out(steps_of(host), host)
        (host.path(Path("/var/lib/weir/pods"))).mkdir(parents=True)
        found = recorded(host)
        assert found is not None
        command.carry_out(plan.stop_steps(systemd=True), host)
        steps = plan.remove_steps(found, systemd=True, link=Path("/opt/weir/bin/weir"), purge=False)
        command.carry_out(steps, host)
        assert set(files_of(host)) == {"/etc/weir/install.json"}, "for a purge, and the next installation"
        assert host.path(Path("/var/lib/weir/pods")).exists()
        assert "weir" in host.users, "the state belongs to it"
        steps = plan.remove_steps(found, systemd=True, link=None, purge=True)
        command.carry_out(steps, host)
        assert not files_of(host)
        assert not host.path(Path("/var/lib/weir")).exists()
        assert host.users == {"root": 0, "mia": 1000}
        assert not host.groups
        assert not to_do(steps, host)

    def test_purge_keeps_accounts_that_were_there_before(self, host: FakeHost) -> None:
        host.users["weir"] = 700
        host.groups["weir-admin"] = {"ann"}
        command.carry_out(steps_of(host), host)
        found = recorded(host)
        assert found is not None
        command.carry_out(plan.remove_steps(found, systemd=True, link=None, purge=True), host)
        assert "weir" in host.users
        assert host.groups["weir-admin"] == {"ann", "mia"}

    def test_files_of_others_stay(self, host: FakeHost) -> None:
        kept = host.path(Path("/etc/fish/completions/git.fish"))
        command.carry_out(steps_of(host), host)
        kept.write_text("git")
        command.carry_out([remove_file(path) for path in plan.COMPLETIONS], host)
        assert kept.exists()
        assert not host.path(Path("/usr/local/share/zsh")).exists()
        assert host.path(Path("/usr/local/share")).exists()

    def test_tree_is_removed_without_following_links(self, host: FakeHost) -> None:
        outside = host.path(Path("/home/mia"))
        outside.mkdir(parents=True)
        (outside / "thesis").write_text("text")
        home = host.path(Path("/var/lib/weir/jobs"))
        home.mkdir(parents=True)
        (home / "link").symlink_to(outside)
        remove_tree(Path("/var/lib/weir"), "state").do(host)
        assert (outside / "thesis").exists()

    def test_processes_of_the_pool_are_found_by_their_groups(self, tmp_path: Path) -> None:
        home = tmp_path / "home"
        home.mkdir()
        status = home.stat()
        name = f"weir-{status.st_dev:x}-{status.st_ino:x}"
        groups = {
            10: f"0::/system.slice/weir.service/{name}/supervisors\n",
            11: f"4:memory:/{name}/supervisors\n3:pids:/{name}/1.0-0-0\n0::/\n",
            12: "0::/system.slice/weir.service\n",
            13: f"0::/system.slice/weir.service/{name}-1/2.0-0-0\n",
            14: f"0::/user.slice/{name}\n",
        }
        for pid, text in groups.items():
            (tmp_path / "proc" / str(pid)).mkdir(parents=True)
            (tmp_path / "proc" / str(pid) / "cgroup").write_text(text)
        (tmp_path / "proc" / "15").mkdir()
        (tmp_path / "proc" / "sys").mkdir()
        found = pool_processes(home, tmp_path / "proc")
        assert (set(found.supervisors), set(found.jobs), found.workloads) == ({10}, {11}, {"1"})
        assert not pool_processes(tmp_path / "none", tmp_path / "proc")

    def test_empty_groups_of_the_pool_are_removed_and_no_others(self, tmp_path: Path) -> None:
        status = tmp_path.stat()
        name = f"weir-{status.st_dev:x}-{status.st_ino:x}"
        groups = tmp_path / "cgroup"
        for each in (f"system.slice/{name}/supervisors", f"{name}/1.1-0-0", f"{name}-1/2.1-0-0"):
            (groups / each).mkdir(parents=True)
        remove_groups(tmp_path, groups)
        left = {str(path.relative_to(groups)) for path in groups.rglob("*")}
        assert left == {"system.slice", f"{name}-1", f"{name}-1/2.1-0-0"}
        remove_groups(tmp_path / "none", groups)
        assert (groups / "system.slice").exists()


class TestSettings:
    def test_what_is_left_out_stays_as_it_was(self, host: FakeHost) -> None:
        first = chosen(None, **{**ALL_LEFT_OUT, "allow_group": "gpu"}, options=["--price", "2"])
        write_file(settings.RECORD, first.record(), "a test").do(host)
        before = recorded(host)
        assert before == first
        assert chosen(before, **ALL_LEFT_OUT, options=()) == first
        changed = chosen(
            before, **{**ALL_LEFT_OUT, "allow_group": "", "new_privileges": True}, options=["--x"]
        )
        assert (changed.allow_group, changed.new_privileges, changed.options) == ("", True, ("--x",))

    @pytest.mark.parametrize(("name", "value"), [("user", "other"), ("home", Path("/srv/weir"))])
    def test_user_and_home_cannot_change_later(self, name: str, value: object) -> None:
        with pytest.raises(InstallFailed, match="weir uninstall"):
            chosen(InstallSettings(), **{**ALL_LEFT_OUT, name: value}, options=())

    @pytest.mark.parametrize(
        "home",
        [
            *(f"/{name}/weir" for name in settings._OF_THE_SYSTEM),
            *(
                "/",
                "/var",
                "/home",
                "/usr/weir",
                "/etc/weir",
                "/var/lib",
                "relative/path",
                "/tmp/x",
            ),
            *(
                "/srv/we ir",
                "/srv/weir\nExecStart=/bin/sh",
                "/srv/%h",
                "/srv/../etc",
                "//srv/weir",
            ),
        ],
    )
    def test_home_that_is_not_weirs_own_is_refused(self, home: str) -> None:
        with pytest.raises(InstallFailed, match="--home"):
            checked(InstallSettings(home=Path(home)))

    @pytest.mark.parametrize("user", ["root", "", "a b", "-x", "a" * 33, "weir\nUser=root", "Weir", "0"])
    def test_user_that_is_no_name_is_refused(self, user: str) -> None:
        with pytest.raises(InstallFailed):
            checked(InstallSettings(user=user))

    @pytest.mark.parametrize("text", ["", "[]", "{}", '{"user": 1}', "\x00", '{"user": "root", "home": "/"}'])
    def test_broken_record_is_refused_with_its_path(self, host: FakeHost, text: str) -> None:
        place = host.path(settings.RECORD)
        place.parent.mkdir(parents=True)
        place.write_text(text)
        with pytest.raises(InstallFailed, match=r"install\.json"):
            recorded(host)

    @pytest.mark.parametrize(
        "options",
        [["--prise", "2"], ["--virtual-gpus", "x"], ["--on", "kubernetes"], ["--shared-account=weir"]],
    )
    def test_options_that_the_server_would_refuse_are_refused_first(self, options: list[str]) -> None:
        with pytest.raises(InstallFailed):
            command._check_options(options)

    def test_command_of_the_node_process_has_the_settings(self) -> None:
        named = InstallSettings("pool", Path("/srv/pool"), "gpu", 5000, True, ("--price", "2"))
        words = program.node_command(named)
        assert words[1:5] == ("-I", "-m", "weir", "node")
        assert words[5:] == (
            *("--user", "pool", "--home", "/srv/pool", "--allow-group", "gpu", "--uid-min", "5000"),
            *("--new-privileges", "--", "--price", "2"),
        )
