"""The plan in words: boxes, stages, the two halves of each Aggregate, and the progress of every arc."""

from __future__ import annotations

from penstock.algebra.box import Output, Port, Stateful
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
        lines += [f"    {line}" for line in box.details(plan.columns.get(box.name, frozenset()))]
        ports = [port for i in range(len(box.ports)) if _used(plan, port := Port(box, i))]
        lines += [f"    -> {_progress(port)}{_jointly(plan, port)}" for port in ports]
    for stage in range(INTAKE + 1, plan.stages + 1):
        lines += ["", f"stage {stage}"]
        for box in plan.stateful(stage):
            lines.append(f"  {box.kind} {box.name}{_inputs(box.inputs)}: {box.describe()}")
            lines += [f"    {line}" for line in box.details(plan.columns.get(box.name, frozenset()))]
            if (instead := lost(box)) is not None:
                lines.append(f"    {instead}")
            for slot, port in enumerate(box.inputs):
                if "!" not in port.name and (how := box.exchange(slot)) is not None:
                    lines.append(f"    exchange of {port.name}: {how}")
            lines.append(f"    -> {_progress(Port(box))}{_jointly(plan, Port(box))}")
    lines += ["", "outlet"]
    lines += [f"  output {o.name}{_inputs(o.inputs)}: {o.describe()}" for o in network.outputs if "!" not in o.name]
    lines += ["", f"pruned: nobody reads {', '.join(plan.pruned)}"] if plan.pruned else []
    return "\n".join(lines)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _inputs(ports: tuple[Port, ...]) -> str:
    return f" <- {', '.join(p.name for p in ports if '!' not in p.name)}" if ports else ""


def _progress(port: Port) -> str:
    down = [f"{attribute} (descending)" for attribute in port.shape.falling]
    progress = ", ".join((*port.progressing, *down))
    return f"{port.name}: progress on {progress}" if progress else f"{port.name}: no progress"


def _jointly(plan: Plan, port: Port) -> str:
    if port.name not in plan.network.joint:
        return ""
    left, right = (" or ".join(side) for side in port.shape.joint)
    return f", and jointly on ({left}, {right})"


def _used(plan: Plan, port: Port) -> bool:
    return any("!" not in arc.consumer.name for arc in plan.network.consumers(port))
