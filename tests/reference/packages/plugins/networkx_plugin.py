"""Shortest ways in a small graph."""

import networkx
from gymkhana_sdk import Environment, NotFound, ResetResult, Split, StepResult

GRAPH = networkx.Graph()
GRAPH.add_weighted_edges_from([("a", "b", 1), ("b", "c", 2), ("c", "d", 1), ("a", "d", 9), ("a", "c", 7)])


class Proof(Environment):
    """Ends with the shortest way."""

    summary = "Find the shortest way"

    @classmethod
    def splits(cls, options):
        return [Split("train", 1)]

    def reset(self, task, options, seed):
        if (task.split, task.index) != ("train", 0):
            raise NotFound(f"unknown task {task.index} of split `{task.split}`: there is only task 0 of `train`")
        edges = "; ".join(f"{one}-{other}: {cost}" for one, other, cost in GRAPH.edges.data("weight"))
        return ResetResult(f"Find the shortest way from a to d in {edges}.")

    def step(self, action):
        way = action.text.split()
        if way[:1] != ["a"] or way[-1:] != ["d"] or not networkx.is_path(GRAPH, way):
            return StepResult("not a way from a to d")
        cost = networkx.path_weight(GRAPH, way, "weight")
        if cost == networkx.dijkstra_path_length(GRAPH, "a", "d"):
            return StepResult(f"{cost}, the shortest", terminated=True, extras={"success": True})
        return StepResult(f"{cost}, not the shortest")
