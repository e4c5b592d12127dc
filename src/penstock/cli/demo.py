"""`penstock demo`: a continuous query on three links, live on embedded Spark.

The query counts packets over two busy links that lag behind each other and a nearly silent one (Q1 of oop.md,
section 2). A window can only close when every link has said that nothing more will come for it.
"""

from __future__ import annotations

import contextlib
import statistics
import sys
import tempfile
import threading
import time
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

import penstock as pk
from penstock.boxes.aggregate.box import Aggregate
from penstock.cli.accounts import accounts, balanced, of_windows, statement
from penstock.cli.failures import reported
from penstock.cli.stopping import interruptible, start_spark, stop_on_signal
from penstock.cli.view import View, delay_of, plain_line, window_row
from penstock.cli.watch import Closed, Watch
from penstock.connectors.generator.packets import Generator

_LINE_SECONDS: Final = 3.0
"""How often a log gets a line."""
_REFRESH: Final = 4
"""How often a terminal is drawn anew, per second."""


def packets_per_window(watch: Watch, *, rate: int, window: str, seconds: float | None) -> pk.Network:
    """Packets per window over three links, in real time."""
    net = pk.Network("demo")

    def link(rate: int, **shape: Any) -> Generator:
        return pk.generator(rate=rate, seconds=seconds, realtime=True, **shape)

    lulls, disorder = {"0": ("10 seconds", "6 seconds")}, "500 ms"
    slower = link(max(1, rate * 4 // 5), seed=2, disorder=disorder, skew="2 seconds")
    control = net.source("control", link(2, lulls=lulls), progress=pk.ordered())
    main1 = net.source("main1", link(rate, seed=1, disorder=disorder), progress=pk.delayed(disorder))
    main2 = net.source("main2", slower, progress=pk.delayed(disorder))
    links = pk.union(control, main1, main2, name="union")
    packets = links.aggregate({"n": "count(*)"}, on="ts", size=window, name="count")
    packets.output("packets")
    packets.output("screen", to=pk.callback(watch.results))
    return net


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="How long the links send.")] = 60.0,
    rate: Annotated[int, typer.Option(min=1, help="Packets per second on the busiest link.")] = 20_000,
    forever: Annotated[bool, typer.Option("--forever", help="Go on until Ctrl-C.")] = False,
    window: Annotated[str, typer.Option(help="The length of a window.")] = "5 seconds",
) -> None:
    """Watch a query count packets on three links, live, and see every packet accounted for."""
    with (
        reported(),
        stop_on_signal() as stop,
        tempfile.TemporaryDirectory(prefix="penstock-demo-") as folder,
        contextlib.ExitStack() as at_exit,  # Spark goes before the folder that it writes to
    ):
        console = Console()
        watch = Watch(None if forever else seconds)
        net = packets_per_window(watch, rate=rate, window=window, seconds=None if forever else seconds)
        run = _start(net, watch, folder, console, stop, at_exit)
        if run is None:
            console.print("stopped before the links began to send")
            return
        _follow(run, net, watch, console, stop)
        complete = _finish(run, net, watch, console, stop)
    if not complete:
        sys.exit(1)


def _start(
    net: pk.Network,
    watch: Watch,
    folder: str,
    console: Console,
    stop: threading.Event,
    at_exit: contextlib.ExitStack,
) -> pk.Run | None:
    """Start Spark, then the network; None if somebody stopped it before."""
    began, spinner = time.monotonic(), Spinner("dots")

    def starting() -> Spinner:
        then = "stopping as soon as it is up" if stop.is_set() else "which takes some seconds"
        spinner.update(text=f"starting Spark, {then}  {time.monotonic() - began:.0f} s")
        return spinner

    if not console.is_terminal:
        console.print("starting Spark")
    shown = Live(get_renderable=starting, console=console, refresh_per_second=_REFRESH, transient=True)
    with shown if console.is_terminal else contextlib.nullcontext(), interruptible(stop):
        at_exit.callback(start_spark().stop)
        if not stop.is_set():
            # The first batch of a fresh JVM takes seconds: an empty run takes them before the links begin to send.
            packets_per_window(Watch(0), rate=1, window="1 second", seconds=0).run(checkpoint=f"{folder}/first")
        if not stop.is_set():
            watch.begin()
            return net.start(checkpoint=f"{folder}/run", on_batch=watch.batch)
    return None


def _follow(run: pk.Run, net: pk.Network, watch: Watch, console: Console, stop: threading.Event) -> None:
    """Show the run until its inputs have ended, or somebody stops it."""
    network = net.network
    if console.is_terminal:

        def look() -> View:
            return View(watch.sight(network, stopping=stop.is_set()))

        with Live(get_renderable=look, console=console, refresh_per_second=_REFRESH) as live:
            _wait(run, watch, stop)
            live.refresh()
        return
    due = 0.0
    while not _wait(run, watch, stop, once=True):
        for closed in watch.fresh():
            console.print(_window_line(_counting(net), closed), highlight=False, soft_wrap=True)
        if time.monotonic() >= due:
            console.print(plain_line(watch.sight(network)), highlight=False, soft_wrap=True)
            due = time.monotonic() + _LINE_SECONDS
    for closed in watch.fresh():
        console.print(_window_line(_counting(net), closed), highlight=False, soft_wrap=True)


def _wait(run: pk.Run, watch: Watch, stop: threading.Event, *, once: bool = False) -> bool:
    """Wait for the end of the run, or one second of it; whether it is over."""
    while not stop.is_set():
        with interruptible(stop):
            if run.wait(1.0) or watch.ended:
                return True
        if once:
            return stop.is_set()
    return True


def _finish(run: pk.Run, net: pk.Network, watch: Watch, console: Console, stop: threading.Event) -> bool:
    """Stop, and draw up the books; whether they balance."""
    with interruptible(stop):
        run.stop()
    result, counting = run.result, _counting(net)
    record, packets = result.record(), result["packets"]
    books = [*accounts(net.network, record), *of_windows(counting, record, packets, "n")]
    ended = "all links have ended" if record.ended else "stopped"
    console.print()
    what = f"{ended} after batch {record.batch + 1:,}; windows closed: {packets.num_rows:,}"
    console.print(what, style="bold", highlight=False)
    for part in statement(books):
        console.print(part)
    delays = [d for c in watch.sight(net.network).closed if (d := delay_of(counting, c)) is not None and d > 0]
    if delays:
        console.print(
            Text(
                f"the last {len(delays)} results were out {statistics.median(delays):.1f} s after their window's end "
                f"(median), {max(delays):.1f} s at most; that includes the links' own lag, disorder and lulls",
                "dim",
            )
        )
    return balanced(books)


def _window_line(box: Aggregate, closed: Closed) -> str:
    columns = box.schema(0).names[1:]
    span, *values, delay = window_row(box, closed, columns)
    shown = ", ".join(f"{name} = {value}" for name, value in zip(columns, values, strict=True))
    return f"        window {span}: {shown}  (out after {delay})"


def _counting(net: pk.Network) -> Aggregate:
    return next(box for box in net.network.boxes if isinstance(box, Aggregate))
