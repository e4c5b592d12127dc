"""The plan in words: boxes, stages, the two halves of each Aggregate, and the progress of every arc."""

from __future__ import annotations

from penstock.algebra.aggregate import Aggregate
from penstock.algebra.box import Output, Port, Source, Stateful
from penstock.algebra.join import SEGMENT, Join
from penstock.algebra.table_join import TableJoin
from penstock.algebra.ticks import span_text
from penstock.plan.plan import INTAKE, Plan


def explain(plan: Plan) -> str:
    """The plan, place by place, in the order in which a tuple meets it."""
    network = plan.network
    lines = [f"network {network.name}: {_counted(len(network.sources), 'input')}, {_counted(plan.stages, 'stage')}"]
    lines += ["", "intake (workers that read; stateless boxes run wherever their tuples are)"]
    for box in network.boxes:
        if isinstance(box, Stateful | Output):
            continue
        lines.append(f"  {box.kind} {box.name}{_inputs(box.inputs)}: {box.describe()}")
        if isinstance(box, Source):
            lines.append(f"    reads {', '.join(n for n in box.tuples.names if n in plan.columns[box.name])}")
        if isinstance(box, TableJoin):
            names, known = box.loaded(plan.columns[box.name]).names, len(box.pairing.right)
            lines.append(f"    loads {', '.join(names)} ({len(names)} of {_counted(known, 'column')} of the table)")
        lines += [f"    -> {_progress(Port(box, i))}" for i in range(len(box.ports)) if _used(plan, Port(box, i))]
    for stage in range(INTAKE + 1, plan.stages + 1):
        lines += ["", f"stage {stage}"]
        for box in plan.stateful(stage):
            lines.append(f"  {box.kind} {box.name}{_inputs(box.inputs)}: {box.describe()}")
            if isinstance(box, Aggregate):
                lines.append(f"    low level: partial aggregates per pane of {_pane(box)}, before the exchange")
                lines.append(f"    high level: results leave when {box.on} has passed a window's end")
            if isinstance(box, Join):
                lines.append(f"    keeps {box.keeps()}")
            for slot, port in enumerate(box.inputs):
                lines.append(f"    exchange of {port.name}: {_exchange(box.keys(slot))}")
            lines.append(f"    -> {_progress(Port(box))}")
    lines += ["", "outlet"]
    lines += [f"  output {o.name}{_inputs(o.inputs)}: {o.describe()}" for o in network.outputs if "!" not in o.name]
    return "\n".join(lines)


def _exchange(keys: tuple[str, ...] | None) -> str:
    if keys is None:
        return "to every bucket"
    if keys == (SEGMENT,):
        return "by segment of time, as there are no keys"
    return f"by {', '.join(keys)}" if keys else "to bucket 0, as there are no keys"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _inputs(ports: tuple[Port, ...]) -> str:
    return f" <- {', '.join(p.name for p in ports)}" if ports else ""


def _progress(port: Port) -> str:
    progress = ", ".join(port.progressing)
    return f"{port.name}: progress on {progress}" if progress else f"{port.name}: no progress"


def _pane(box: Aggregate) -> str:
    return span_text(box.window.pane, box.on_type)


def _used(plan: Plan, port: Port) -> bool:
    return any("!" not in arc.consumer.name for arc in plan.network.consumers(port))
