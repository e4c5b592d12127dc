"""The plan in words: boxes, stages, the two halves of each Aggregate, and the progress of every arc."""

from __future__ import annotations

from penstock.algebra.box import Output, Port, Source, Stateful
from penstock.algebra.hidden import fallen
from penstock.algebra.joint_punctuation import joint_names
from penstock.algebra.ticks import span_text
from penstock.boxes.aggregate.box import Aggregate
from penstock.boxes.aggregate.buffered.box import BufferedAggregate
from penstock.boxes.aggregate.low_level.box import LowLevel
from penstock.boxes.join.box import SEGMENT, Join
from penstock.boxes.table_join.box import TableJoin
from penstock.plan.mark_groups import lost
from penstock.plan.plan import INTAKE, OUT_OF_ORDER, Plan


def explain(plan: Plan) -> str:
    """The plan, place by place, in the order in which a tuple meets it."""
    network = plan.network
    lines = [f"network {network.name}: {_counted(len(network.sources), 'input')}, {_counted(plan.stages, 'stage')}"]
    lines[0] += "" if plan.architecture == OUT_OF_ORDER else f", {plan.architecture}"
    lines += ["", "intake (workers that read; stateless boxes run wherever their tuples are)"]
    for box in network.boxes:
        if isinstance(box, Stateful | Output) or "!" in box.name:
            continue
        lines.append(f"  {box.kind} {box.name}{_inputs(box.inputs)}: {box.describe()}")
        if isinstance(box, Source):
            lines.append(f"    reads {', '.join(n for n in box.tuples.names if n in plan.columns[box.name])}")
        if isinstance(box, TableJoin):
            names, known = box.loaded(plan.columns[box.name]).names, len(box.pairing.right)
            lines.append(f"    loads {', '.join(names)} ({len(names)} of {_counted(known, 'column')} of the table)")
        ports = [port for i in range(len(box.ports)) if _used(plan, port := Port(box, i))]
        lines += [f"    -> {_progress(port)}{_jointly(plan, port)}" for port in ports]
    for stage in range(INTAKE + 1, plan.stages + 1):
        lines += ["", f"stage {stage}"]
        for box in plan.stateful(stage):
            lines.append(f"  {box.kind} {box.name}{_inputs(box.inputs)}: {box.describe()}")
            if isinstance(box, LowLevel):
                lines.append(f"    table: {box.table:,} entries in every bucket, a place for each group by its hash")
                lines.append(f"    flush {box.flush.name}: {box.flush.describe()}")
            if isinstance(box, BufferedAggregate):
                lines.append("    keeps every tuple until its last window has closed, and then computes that window")
            elif isinstance(box, Aggregate):
                lines.append(f"    low level: {_low_level(box)}")
                lines.append(f"    high level: results leave when {box.on} has passed a window's end")
                if box.joint is not None:
                    lines.append(f"    or has in all pairs with their {box.joint.column} (joint punctuation)")
            if isinstance(box, Join):
                lines.append(f"    keeps {box.keeps()}")
            if (instead := lost(box)) is not None:
                lines.append(f"    {instead}")
            for slot, port in enumerate(box.inputs):
                # The low level of an aggregate is in the same bucket.
                if not (isinstance(port.box, LowLevel) and isinstance(box, Aggregate)) and "!" not in port.name:
                    lines.append(f"    exchange of {port.name}: {_exchange(box.keys(slot))}")
            lines.append(f"    -> {_progress(Port(box))}{_jointly(plan, Port(box))}")
    lines += ["", "outlet"]
    lines += [f"  output {o.name}{_inputs(o.inputs)}: {o.describe()}" for o in network.outputs if "!" not in o.name]
    lines += ["", f"pruned: nobody reads {', '.join(plan.pruned)}"] if plan.pruned else []
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
    return f" <- {', '.join(p.name for p in ports if '!' not in p.name)}" if ports else ""


def _progress(port: Port) -> str:
    down = [f"{attribute} (descending)" for attribute in fallen(port.box.marked(port.index))]
    progress = ", ".join((*port.progressing, *down))
    return f"{port.name}: progress on {progress}" if progress else f"{port.name}: no progress"


def _jointly(plan: Plan, port: Port) -> str:
    if port.name not in plan.network.joint:
        return ""
    left, right = (" or ".join(names) for names in joint_names(port))
    return f", and jointly on ({left}, {right})"


def _low_level(box: Aggregate) -> str:
    low = box.inputs[0].box
    if isinstance(low, LowLevel):
        return f"{low.name}, whose partial aggregates are merged"
    return f"partial aggregates per pane of {span_text(box.window.pane, box.on_type)}, before the exchange"


def _used(plan: Plan, port: Port) -> bool:
    return any("!" not in arc.consumer.name for arc in plan.network.consumers(port))
