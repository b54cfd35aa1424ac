package graphtest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
)

const graph = `apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: g, version: 1.0.0}
spec:
  entrypoint: a
  agents:
    - {id: a, agentRef: x}
    - {id: b, agentRef: x}
  edges:
    - {from: a, to: b}
`

// case returns a file with one case, whose graph is last.
func withGraph(rest string) string {
	return rest + "graph: |\n  " + strings.ReplaceAll(strings.TrimSuffix(graph, "\n"), "\n", "\n  ") + "\n"
}

func problems(t *testing.T, err error) []string {
	t.Helper()
	var bad *Error
	require.True(t, errors.As(err, &bad), "%v", err)
	var lines []string
	for _, p := range bad.Problems {
		lines = append(lines, p.String())
	}
	require.Equal(t, strings.Join(lines, "\n"), err.Error())
	return lines
}

func TestGivenCases(t *testing.T) {
	cases := must.Get(LoadCaseFile("../testdata/exec.yaml"))
	require.Len(t, cases, 12)
	c := cases[1]
	require.Equal(t, "diamond-parallel", c.Name)
	require.Equal(t, 53, c.Line)
	require.Contains(t, c.Note, "barrier")
	require.Equal(t, [][]string{{"B", "C"}}, c.Expect.Parallel)
	require.Equal(t, map[string]any{}, c.Input)
	require.Equal(t, map[string]any{"from": "A"}, c.Mocks["A"].Output)
	require.Equal(t, map[string]any{"from": "B"}, c.Expect.Inputs["D"].(map[string]any)["B"])
	require.Empty(t, c.Mocks.Unmocked(c.Graph))
	require.Equal(t, map[string]int{"b": 3}, cases[8].Expect.Calls)
	require.Equal(t, &ExpectError{Edge: "a->b", Contains: []string{"sentiment"}}, cases[10].Expect.Error)
	more := must.Get(LoadCaseFile("../testdata/exec-more.yaml"))
	require.GreaterOrEqual(t, len(more), 40)
	require.InDelta(t, 0.8, cases[11].Expect.ConfigSeen["analyzer"]["threshold"], 0)
}

func TestLoadMocks(t *testing.T) {
	mocks := must.Get(LoadMocks([]byte(`
# comments are fine
a: {output: {x: [1, 9007199254740993, 1.5, -2, null, true, "1"]}}
b: {error: down, times: 2, output: ok, delay: 50ms}
c: {outputs: [1, null], delay: 20}
d: {error: "no"}
e: {output: null}
f: {error: down, failTimes: 1, outputs: [1], delayMs: 1.5}
g: {blockUntilCancelled: true, output: 1}
h: {error: down, times: 1}
i: {delay: 1ms}
j: {output: [1e-07, 18446744073709551616, "1e3"]}
`), "m.yaml"))
	for id, m := range mocks {
		require.Equal(t, "m.yaml", m.file)
		require.NotZero(t, m.line)
		m.file, m.line = "", 0
		mocks[id] = m
	}
	require.Equal(t, Mocks{
		"a": {Output: map[string]any{"x": []any{int64(1), int64(9007199254740993), 1.5, int64(-2), nil, true, "1"}}},
		"b": {Error: "down", Times: 2, Output: "ok", Delay: 50 * time.Millisecond},
		"c": {Outputs: []any{int64(1), nil}, Delay: 20 * time.Millisecond},
		"d": {Error: "no"},
		"e": {},
		"f": {Error: "down", Times: 1, Outputs: []any{int64(1)}, Delay: 1500 * time.Microsecond},
		"g": {BlockUntilCancelled: true, Output: int64(1)},
		"h": {Error: "down", Times: 1},
		"i": {Delay: time.Millisecond},
		"j": {Output: []any{json.Number("1e-07"), json.Number("18446744073709551616"), "1e3"}},
	}, mocks)
}

func TestBadMocks(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "m:1: the file holds no mock: give the id of an agent",
		"# nothing\n":                          "m:1: the file holds no mock",
		"- a":                                  "m:1: the file must be a mapping, not a list",
		"a: 1":                                 "m:1: the mock a must be a mapping, not the number 1",
		"a:":                                   "m:1: the mock a: it says neither",
		"a: {output: 1, ouputs: [1]}":          `m:1: unknown key "ouputs"; did you mean "outputs"?`,
		"a: {colour: 1}":                       `m:1: unknown key "colour"; the keys here are output, outputs, error, times, delay, blockUntilCancelled`,
		"a:\n  output: 1\n  output: 2":         `m:3: the key "output" is repeated`,
		"a: {output: 1}\na: {}":                `m:2: the key "a" is repeated`,
		"a: {output: null, outputs: [1]}":      "m:1: the mock a: output and outputs exclude each other",
		"a: {outputs: []}":                     "m:1: outputs is empty",
		"a: {outputs: 1}":                      "m:1: outputs must be a list, not the number 1",
		"a: {output: 1, times: 2}":             "m:1: the mock a: times says how many calls fail, and error is missing",
		"a: {error: x, times: 0, output: 1}":   "m:1: times must be a whole number from 1, not 0",
		"a: {error: x, times: 1.5, output: 1}": "m:1: times must be a whole number from 1, not the number 1.5",
		"a: {error: x, times: 1, failTimes: 1, output: 1}": "m:1: times and failTimes say the same thing",
		"a: {error: 5}":                            `m:1: error must be a text, not the number 5: put it in quotes, "5"`,
		"a: {error: ''}":                           "m:1: error is empty",
		"a: {output: 1, delay: -1ms}":              "m:1: delay must be a time such as 50ms or 1.5s",
		"a: {output: 1, delay: soon}":              "m:1: delay must be a time such as 50ms or 1.5s",
		"a: {output: 1, delayMs: 5ms}":             "m:1: delayMs must be a number of milliseconds",
		"a: {blockUntilCancelled: 1}":              "m:1: blockUntilCancelled must be true or false, not the number 1",
		"a: {blockUntilCancelled: false}":          "m:1: the mock a: it says neither",
		"a: {blockUntilCancelled: true, error: x}": "m:1: the mock a: blockUntilCancelled and error exclude each other",
		"a: {output: .nan}":                        "m:1: the number .nan has no JSON form",
		"a: {output: &x 1}":                        "m:1: anchors, aliases, merge keys, tags and directives are not read in the file",
		"a: {output: !!str 1}":                     "m:1: anchors, aliases, merge keys, tags and directives are not read in the file",
		"a: {output: 1}\n---\nb: {output: 1}":      "m:3: a file of mocks holds one document",
		"a: {output: 1\nb: 2":                      "is not valid YAML",
		"a: {output: 1}\n\tb: 1":                   "is not valid YAML",
		"\xff":                                     "m:1: the line is not UTF-8",
		"a: {output: 1}\nb: \xff":                  "m:2: the line is not UTF-8",
		"a: {output: " + strings.Repeat("[", 80) + strings.Repeat("]", 80) + "}": "m:1: the file is nested more than 64 levels deep",
	} {
		_, err := LoadMocks([]byte(text), "m")
		require.ErrorContains(t, err, want, text)
		problems(t, err)
	}
	_, err := LoadMocks([]byte("a: {outptu: 1}\n\nb: {error: 1}\nc: {output: 1, outputs: [2]}\n"), "m")
	require.Len(t, problems(t, err), 3, "all problems at once")
}

func TestBadCases(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "c:1: the file holds no case: a case has name, graph, input, mock and expect",
		"---\n---\n":                            "c:1: the file holds no case",
		"~":                                     "c:1: the file holds no case",
		"[]":                                    "c:1: a case must be a mapping, not a list",
		"name: x\n":                             "c:1: expect is missing: without it nothing is checked\nc:1: the case has no graph",
		withGraph("name: x\nexpect: {}\n"):      "c:2: expect is empty: nothing would be checked",
		withGraph("expect: {status: failed}\n"): "c:1: the case has no name",
		withGraph("name: x\nexpect: {statsu: failed}\n"):                                                              `c:2: unknown key "statsu"; did you mean "status"?`,
		withGraph("nmae: x\nexpect: {status: failed}\n"):                                                              `c:1: unknown key "nmae"; did you mean "name"?`,
		withGraph("name: x\nexpect: {status: complete}\n"):                                                            `c:2: the status "complete" does not exist; did you mean "completed"?`,
		withGraph("name: x\nexpect: {order: a}\n"):                                                                    `c:2: order must be a list of texts, not "a"`,
		withGraph("name: x\nexpect: {order: [1]}\n"):                                                                  `order must be a list of texts, but one of them is the number 1: put it in quotes, "1"`,
		withGraph("name: x\nexpect: {order: [a, bb]}\n"):                                                              `c:2: expect.order: no agent of the graph has the id "bb"; did you mean "b"?`,
		withGraph("name: x\nexpect:\n  status: failed\n  calls: {q: 1}\n"):                                            `c:4: expect.calls: no agent of the graph has the id "q"`,
		withGraph("name: x\nexpect: {calls: {a: -1}}\n"):                                                              "c:2: a must be a whole number from 0, not the number -1",
		withGraph("name: x\nexpect: {parallel: [a]}\n"):                                                               "a group of parallel must be a list of texts",
		withGraph("name: x\nexpect: {parallel: [[a]]}\n"):                                                             "a group of parallel has at least two ids",
		withGraph("name: x\nexpect: {parallel: [[a, b]]}\n"):                                                          "expect.parallel: a has no mock that could wait",
		withGraph("name: x\nexpect: {error: boom}\n"):                                                                 "error must be a mapping",
		withGraph("name: x\nexpect: {error: {agent: a, edge: a->b}}\n"):                                               "about an agent or about an edge, not about both",
		withGraph("name: x\nexpect: {error: {edge: ab}}\n"):                                                           "an edge is written as from->to",
		withGraph("name: x\nexpect: {fallbackInputHas: [x]}\n"):                                                       "the graph has no fallbackAgent",
		withGraph("name: x\nexpect: {status: failed}\nmock: {A: {output: 1}}\n"):                                      `c:3: no agent of the graph has the id "A"; did you mean "a"?`,
		withGraph("name: x\nexpect: {status: failed}\nmock: {a: {outptu: 1}}\n"):                                      `c:3: unknown key "outptu"; did you mean "output"?`,
		withGraph("name: x\nexpect: {status: failed}\ngraphFile: y\n"):                                                "c:3: graph and graphFile exclude each other",
		withGraph("name: x\nexpect: {status: failed}\napprove: [q]\n"):                                                `c:3: approve: no agent of the graph has the id "q"`,
		withGraph("name: x\nexpect: {status: failed}\ndeny: [b]\n"):                                                   "c:3: deny: b does not wait for an approval: its node has no when: human",
		"name: x\nexpect: {status: failed}\ngraphFile: no/such.yaml\n":                                                "c:3: no/such.yaml: there is no such file",
		"name: x\nexpect: {status: failed}\ngraphFile: .\n":                                                           "c:3: .: this is a folder",
		"name: x\nexpect: {status: failed}\ngraph:\n  kind: AgentGraph\n":                                             "c:3: graph must be a text: write | after graph:",
		"name: x\nexpect: {status: failed}\ngraph: \"a\"\n":                                                           "c:3: line 1 of the graph: a document must be a mapping",
		"name: a\n---\nname: [\n":                                                                                     "c:3: this is not valid YAML",
		withGraph("name: x\nexpect: {status: failed}\n") + "---\n" + withGraph("name: x\nexpect: {status: failed}\n"): `c:15: the name "x" is already on line 1`,
	} {
		_, err := LoadCases([]byte(text), "c")
		require.ErrorContains(t, err, want, text)
		problems(t, err)
	}
}

// TestLinesOfGraphs: the problems of a graph in a case have the lines of the case's
// file.
func TestLinesOfGraphs(t *testing.T) {
	good := withGraph("name: x\nexpect: {status: failed}\n")
	text := "# cases\n---\n" + good + "--- # the next\n" + strings.Replace(strings.Replace(good, "name: x", "name: y", 1), "entrypoint: a", "entrypoint: q", 1)
	want := 1
	for _, line := range strings.Split(text, "\n") {
		if strings.Contains(line, "entrypoint: q") {
			break
		}
		want++
	}
	_, err := LoadCases([]byte(text), "dir/c.yaml")
	lines := problems(t, err)
	require.Len(t, lines, 1)
	require.Equal(t, want, err.(*Error).Problems[0].Line)
	require.Contains(t, lines[0], `the graph: spec.entrypoint: no agent has the id "q"`)

	_, err = LoadCases([]byte(strings.ReplaceAll(text, "\n", "\r\n")), "dir/c.yaml")
	require.Equal(t, want, err.(*Error).Problems[0].Line)
}
