import pytest
from routes import CycleError, Graph, spanning_tree

ROADS = [("a", "b", 7), ("a", "c", 3), ("c", "b", 1), ("b", "d", 2), ("c", "d", 8), ("e", "a", 1)]


@pytest.fixture
def roads():
    return Graph(ROADS)


def test_nodes_keep_the_order_in_which_they_were_named(roads):
    assert roads.nodes == ["a", "b", "c", "d", "e"]


def test_a_node_may_stand_alone():
    graph = Graph()
    graph.add("x")
    assert graph.nodes == ["x"]
    assert graph.neighbours("x") == []


def test_adding_a_node_again_keeps_its_edges(roads):
    roads.add("a")
    assert roads.neighbours("a") == ["b", "c"]


def test_edges_lead_one_way():
    graph = Graph([("a", "b", 1)])
    assert graph.neighbours("a") == ["b"]
    assert graph.neighbours("b") == []


def test_edges_may_lead_both_ways():
    graph = Graph()
    graph.connect("a", "b", 4, both_ways=True)
    assert graph.distances("a") == {"a": 0, "b": 4}
    assert graph.distances("b") == {"b": 0, "a": 4}


def test_an_edge_weighs_one_unless_said_otherwise():
    graph = Graph()
    graph.connect("a", "b")
    assert graph.distances("a")["b"] == 1


def test_a_second_edge_replaces_the_first():
    graph = Graph([("a", "b", 5), ("a", "b", 9)])
    assert graph.distances("a")["b"] == 9


def test_negative_weights_are_refused():
    with pytest.raises(ValueError, match="not negative"):
        Graph([("a", "b", -1)])


def test_a_weight_may_be_zero():
    assert Graph([("a", "b", 0)]).distances("a") == {"a": 0, "b": 0}


def test_reversed_edges_lead_the_other_way(roads):
    assert roads.reversed().neighbours("b") == ["a", "c"]
    assert roads.reversed().nodes == roads.nodes


def test_reversing_twice_changes_nothing(roads):
    assert roads.reversed().reversed().distances("e") == roads.distances("e")


def test_distances_are_the_shortest(roads):
    assert roads.distances("a") == {"a": 0, "c": 3, "b": 4, "d": 6}


def test_what_cannot_be_reached_has_no_distance(roads):
    assert "e" not in roads.distances("a")
    assert roads.distances("d") == {"d": 0}


def test_distances_add_up_along_the_way(roads):
    assert roads.distances("e") == {"e": 0, "a": 1, "c": 4, "b": 5, "d": 7}


def test_the_shortest_route_may_have_more_nodes(roads):
    assert roads.route("a", "d") == ["a", "c", "b", "d"]


def test_a_route_to_oneself_is_one_node(roads):
    assert roads.route("b", "b") == ["b"]


def test_there_may_be_no_route(roads):
    assert roads.route("d", "a") is None
    assert roads.route("a", "e") is None


def test_of_equal_routes_the_one_found_first_is_kept():
    graph = Graph([("s", "a", 1), ("s", "b", 1), ("a", "t", 1), ("b", "t", 1)])
    assert graph.route("s", "t") == ["s", "a", "t"]


def test_nodes_need_no_order_of_their_own():
    graph = Graph([("s", 1, 1), ("s", "x", 1), (1, "t", 5), ("x", "t", 1)])
    assert graph.distances("s") == {"s": 0, 1: 1, "x": 1, "t": 2}


def test_hops_count_edges_and_not_weights(roads):
    assert roads.hops("a") == {"a": 0, "b": 1, "c": 1, "d": 2}


def test_hops_go_round_in_a_circle():
    graph = Graph([("a", "b", 1), ("b", "c", 1), ("c", "a", 1)])
    assert graph.hops("b") == {"b": 0, "c": 1, "a": 2}


def test_order_puts_each_node_before_its_ends(roads):
    assert roads.order() == ["e", "a", "c", "b", "d"]


def test_order_otherwise_follows_the_names():
    graph = Graph([("b", "z", 1), ("a", "z", 1)])
    assert graph.order() == ["b", "a", "z"]


def test_order_lists_nodes_without_edges():
    graph = Graph()
    graph.add("x")
    graph.connect("a", "b")
    assert graph.order() == ["x", "a", "b"]


def test_a_circle_has_no_order():
    with pytest.raises(CycleError):
        Graph([("start", "a", 1), ("a", "b", 1), ("b", "a", 1)]).order()


def test_a_node_that_waits_for_itself_has_no_order():
    with pytest.raises(CycleError):
        Graph([("a", "a", 1)]).order()


def test_components_use_edges_both_ways():
    graph = Graph([("a", "b", 1), ("c", "b", 1), ("x", "y", 1)])
    assert graph.components() == [{"a", "b", "c"}, {"x", "y"}]


def test_a_lonely_node_is_a_component():
    graph = Graph([("a", "b", 1)])
    graph.add("z")
    assert graph.components() == [{"a", "b"}, {"z"}]


def test_the_empty_graph_has_no_component():
    assert Graph().components() == []
    assert Graph().order() == []


def test_a_spanning_tree_takes_the_cheapest_edges():
    edges = [("a", "b", 4), ("b", "c", 1), ("a", "c", 2), ("c", "d", 5)]
    assert spanning_tree(edges) == [("b", "c", 1), ("a", "c", 2), ("c", "d", 5)]


def test_a_spanning_tree_has_no_circle():
    edges = [("a", "b", 1), ("b", "c", 1), ("c", "d", 1), ("d", "a", 1), ("a", "c", 1)]
    assert len(spanning_tree(edges)) == 3


def test_a_spanning_tree_may_be_a_forest():
    edges = [("a", "b", 2), ("x", "y", 1)]
    assert spanning_tree(edges) == [("x", "y", 1), ("a", "b", 2)]
    assert spanning_tree([]) == []
