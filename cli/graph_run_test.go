package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agentgraph"
	"github.com/agentarbor/arbor/agentgraph/graphtest"
	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// triage is a graph whose agents exist nowhere.
const triage = `apiVersion: ossa.ai/v0.2.7
kind: AgentGraph
metadata: {name: triage, version: 1.0.0}
spec:
  agents:
    - {id: classifier, agentRef: intent-classifier}
    - {id: billing, agentRef: billing-support}
    - {id: general, agentRef: general-support}
  edges:
    - {from: classifier, to: billing, condition: output.intent == 'billing'}
    - {from: classifier, to: general, condition: output.intent != 'billing'}
  entrypoint: classifier
`

// files writes files into a folder of their own and returns their paths by their names.
func files(t *testing.T, texts map[string]string) map[string]string {
	t.Helper()
	dir, paths := t.TempDir(), make(map[string]string)
	for name, text := range texts {
		paths[name] = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(paths[name]), 0o700))
		require.NoError(t, os.WriteFile(paths[name], []byte(text), 0o600))
	}
	return paths
}

func TestGraphRun(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "m.yaml": "classifier: {output: {intent: billing, say: \"<&> \\e[1m\"}}\nbilling: {output: done}\ngeneral: {output: 1}\n"})
	got := invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--input", `{"n": 9007199254740993}`)
	require.Equal(t, outcome{0, `classifier  done       {"intent":"billing","say":"<&> \u001b[1m"}
billing     done       "done"
general     skipped
status: completed
`, ""}, got)

	got = invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--input", `{"n": 9007199254740993}`, "--json")
	require.Equal(t, outcome{0, `{"status":"completed","order":["classifier","billing"],"skipped":["general"],"failed":[],"cancelled":[],"notRun":[],` +
		`"calls":{"billing":1,"classifier":1,"general":0},"inputs":{"billing":{"intent":"billing","say":"<&> \u001b[1m"},"classifier":{"n":9007199254740993}},` +
		`"outputs":{"billing":"done","classifier":{"intent":"billing","say":"<&> \u001b[1m"}},"phases":{"billing":"finished","classifier":"finished","general":"skipped"},` +
		`"edges":[{"from":"classifier","to":"billing","state":"taken"},{"from":"classifier","to":"general","state":"not_taken"}],"terminal":{"billing":"done"}}` + "\n", ""}, got)
}

// TestGraphRunStatus: what the status of a run means for that of the command.
func TestGraphRunStatus(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		onError, billing string
		status           int
		out, err         string
	}{
		"completed":             {"{strategy: retry}", "{output: 1}", 0, "status: completed\n", ""},
		"completed with errors": {"{strategy: continue}", "{error: is down}", 0, "status: completed_with_errors\n", "arbor: the run completed with errors: billing: is down\n"},
		"failed":                {"{strategy: fail-fast}", "{error: \"is down\\nfor good\"}", cli.StatusFailed, "billing     failed     is down for good\n", "arbor: agent billing: is down for good\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := files(t, map[string]string{"g.yaml": triage + "  errorHandling: " + tt.onError + "\n", "m.yaml": "classifier: {output: {intent: billing}}\nbilling: " + tt.billing + "\ngeneral: {output: 1}\n"})
			got := invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--text", "hi")
			require.Equal(t, tt.status, got.status)
			require.Contains(t, got.out, tt.out)
			require.Equal(t, tt.err, got.err)
			got = invocation{}.run(t, "graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--text", "hi", "--json")
			require.Equal(t, tt.status, got.status)
			require.True(t, json.Valid([]byte(got.out)))
			require.Equal(t, tt.err, got.err)
		})
	}
}

// TestGraphRunInput: what the entrypoint gets.
func TestGraphRunInput(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "m.yaml": "classifier: {output: {}}\nbilling: {output: 1}\ngeneral: {output: 1}\n", "in.json": " {\n \"a\": [1.50, 2e3]}\n"})
	for want, tt := range map[string]struct {
		args  []string
		stdin string
	}{
		`{"a":1}`:                                {[]string{"--input", ` {"a" : 1} `}, "7"},
		`{"a":[1.50,2e3]}`:                       {[]string{"--input", "@" + f["in.json"]}, ""},
		`{"b":2}`:                                {[]string{"--input", "-"}, "\ufeff{\"b\": 2}\r\n"},
		`[3]`:                                    {nil, "[3]\n"},
		`null`:                                   {[]string{"--input", "null"}, ""},
		`""`:                                     {[]string{"--text", ""}, ""},
		`"{\"a\": 1}"`:                           {[]string{"--text", `{"a": 1}`}, ""},
		`"-"`:                                    {[]string{"--text", "-"}, ""},
		`"שלום <b>"`:                             {[]string{"--input", `"שלום <b>"`}, ""},
		`"two\nlines"`:                           {[]string{"--text", "two\nlines"}, ""},
		`"` + strings.Repeat("x", 100<<10) + `"`: {nil, `"` + strings.Repeat("x", 100<<10) + `"`},
	} {
		got := invocation{stdin: tt.stdin}.run(t, append([]string{"graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--json"}, tt.args...)...).exits(t, 0)
		result := must.JSON[struct{ Inputs map[string]json.RawMessage }](got.out)
		require.Equal(t, want, string(result.Inputs["classifier"]))
	}
}

func TestGraphRunBadInput(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage, "m.yaml": "classifier: {output: {}}\nbilling: {output: 1}\ngeneral: {output: 1}\n",
		"typo.yaml": "classifer: {outptu: 1}\nbilling: {output: 1}\n", "id.yaml": "classifer: {output: 1}\nbilling: {output: 1}\n", "part.yaml": "classifier: {output: 1}\n",
		"broken.yaml": strings.Replace(triage, "entrypoint: classifier", "entrypoint: q", 1), "text.yaml": "a: b: c\n"})
	run := func(rest ...string) []string { return append([]string{"graph", "run", f["g.yaml"]}, rest...) }
	for name, tt := range map[string]struct {
		args []string
		say  string
		out  string
	}{
		"no JSON":            {run("--mock", f["m.yaml"], "--input", "hello"), `--input is not JSON (invalid character 'h' looking for beginning of value): a text needs quotes of its own, such as '"hello"', or --text TEXT`, ""},
		"two values":         {run("--mock", f["m.yaml"], "--input", "1 2"), "--input is not JSON", ""},
		"nothing on stdin":   {run("--mock", f["m.yaml"]), "standard input: the input is empty: give JSON, such as '{}'", ""},
		"empty":              {run("--mock", f["m.yaml"], "--input", ""), "--input: the input is empty", ""},
		"no such input":      {run("--mock", f["m.yaml"], "--input", "@no/such"), "the input: no/such: there is no such file", ""},
		"no UTF-8":           {run("--mock", f["m.yaml"], "--input", "\"\xff\""), "--input: the input is not valid UTF-8", ""},
		"no UTF-8 text":      {run("--mock", f["m.yaml"], "--text", "\xff"), "--text is not valid UTF-8", ""},
		"input and text":     {run("--input", "1", "--text", "1"), "--input and --text exclude each other", ""},
		"no file":            {[]string{"graph", "run"}, "FILE is missing", ""},
		"no such file":       {[]string{"graph", "run", "no/such.yaml", "--input", "1"}, "no/such.yaml: there is no such file", ""},
		"no such mocks":      {run("--mock", "no/such.yaml", "--input", "1"), "--mock: no/such.yaml: there is no such file", ""},
		"mocks with a typo":  {run("--mock", f["typo.yaml"], "--input", "1"), f["typo.yaml"] + `:1: unknown key "outptu"; did you mean "output"?` + "\n", ""},
		"mock of no agent":   {run("--mock", f["id.yaml"], "--input", "1"), f["id.yaml"] + `:1: no agent of the graph has the id "classifer"; did you mean "classifier"?` + "\n", ""},
		"not all mocked":     {run("--mock", f["part.yaml"], "--input", "1"), "2 problems", f["g.yaml"] + `:7: spec.agents[1].agentRef: there is no agent "billing-support"`},
		"not all there":      {run("--mock", f["part.yaml"], "--refs", "billing-support,general-support", "--input", "1"), "billing", ""},
		"broken graph":       {[]string{"graph", "run", f["broken.yaml"], "--mock", f["part.yaml"], "--input", "1"}, "3 problems", f["broken.yaml"] + `:12: spec.entrypoint: no agent has the id "q" [unknown_entrypoint]`},
		"broken graph, JSON": {[]string{"graph", "run", f["broken.yaml"], "--mock", f["m.yaml"], "--input", "1", "--json"}, "1 problem", `[{"code":"unknown_entrypoint","path":"spec.entrypoint","line":12,`},
		"no YAML":            {[]string{"graph", "run", f["text.yaml"], "--mock", f["m.yaml"], "--input", "1"}, "1 problem", "[yaml]"},
		"resume what":        {run("--resume"), "--resume needs --session: arbor sessions ls", ""},
		"resume with input":  {run("--resume", "--session", "s", "--input", "1"), "leave out --input and --text", ""},
		"resume nothing":     {run("--mock", f["m.yaml"], "--resume", "--session", "nobody"), `there is no session "nobody"`, ""},
		"approve what":       {run("--approve", "x", "--input", "1"), "--approve needs --resume", ""},
		"reason for what":    {run("--resume", "--session", "s", "--reason", "x"), "--reason needs --deny", ""},
		"misspelt flag":      {run("--mocks", "x"), "unknown flag: --mocks; did you mean --mock?", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := invocation{}.run(t, tt.args...).exits(t, cli.StatusUsage)
			require.Contains(t, got.err, tt.say)
			if tt.out == "" {
				require.Empty(t, got.out)
			}
			require.Contains(t, got.out, tt.out)
		})
	}
}

// TestGraphRunInterrupted: an interrupted run that is kept goes on with the agents that
// had not finished.
func TestGraphRunInterrupted(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"g.yaml": triage,
		"slow.yaml":  "classifier: {output: {intent: billing}}\nbilling: {output: 1, delay: 1h}\ngeneral: {output: 1}\n",
		"quick.yaml": "classifier: {error: is not asked again}\nbilling: {output: 1}\ngeneral: {output: 1}\n"})
	in := invocation{home: t.TempDir(), stdin: "{}"}
	r := in.start(t, "graph", "run", f["g.yaml"], "--mock", f["slow.yaml"], "--session", "s1", "--json")
	must.Wait(t, func() bool {
		return strings.Contains(in.run(t, "sessions", "export", "s1").out, `"agent":"billing"`)
	})
	require.NoError(t, r.Process.Signal(syscall.SIGINT))
	got := r.wait(t).exits(t, cli.StatusInterrupted)
	require.Empty(t, got.out)
	require.Equal(t, "arbor: interrupted; to resume: arbor graph run "+f["g.yaml"]+" --session s1 --resume --mock "+f["slow.yaml"]+"\n", got.err)

	want := "classifier  done       {\"intent\":\"billing\"}\nbilling     done       1\ngeneral     skipped\nstatus: completed\n"
	got = in.run(t, "graph", "run", f["g.yaml"], "--session", "s1", "--resume", "--mock", f["quick.yaml"])
	require.Equal(t, outcome{0, want, ""}, got)
	got = in.run(t, "graph", "run", f["g.yaml"], "--session", "s1", "--resume", "--mock", f["quick.yaml"])
	require.Equal(t, outcome{0, want, "arbor: the last run of session s1 has ended: there is nothing to resume\n"}, got)

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var out, said bytes.Buffer
	status := cli.Run(ctx, []string{"graph", "run", f["g.yaml"], "--mock", f["slow.yaml"], "--input", "1"}, cli.Streams{Stdout: &out, Stderr: &said})
	require.Equal(t, cli.StatusInterrupted, status)
	require.Equal(t, "arbor: interrupted\n", said.String(), "nothing is stored, so there is nothing to resume")
	require.Empty(t, out.String())
}

// TestGraphRunAgents: agents without a mock are those of the graph's file and of its
// folder, or of another one.
func TestGraphRunAgents(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"billing.md": "---\nname: billing-support\n---\nYou handle refunds.\n", "general.md": "---\nname: general-support\n---\nYou answer.\n",
		"g.yaml": triage + "---\napiVersion: ossa.ai/v0.2.7\nkind: Agent\nmetadata: {name: intent-classifier}\nspec: {role: You classify.}\n"})
	script := answers(scripted.Reply(scripted.Text("```json\n{\"intent\": \"billing\"}\n```")), scripted.Reply(scripted.Text("All is well.")))
	in := invocation{home: t.TempDir(), env: serve(t, script)}
	got := in.run(t, "graph", "run", f["g.yaml"], "--text", "I was charged twice", "--session", "s1")
	require.Equal(t, outcome{0, "classifier  done       {\"intent\":\"billing\"}\nbilling     done       \"All is well.\"\ngeneral     skipped\nstatus: completed\n", ""}, got)
	require.NoError(t, script.Done())
	asked := script.Requests("model")
	require.Contains(t, asked[0].System, "You classify.")
	require.Contains(t, asked[1].System, "You handle refunds.")
	last := asked[1].Messages[len(asked[1].Messages)-1]
	require.JSONEq(t, `{"intent":"billing"}`, last.Text)
	require.Contains(t, in.run(t, "sessions", "export", "s1").out, `"agentId":"billing-support"`)

	elsewhere := files(t, map[string]string{"g.yaml": triage, "m.yaml": "classifier: {output: {intent: other}}\nbilling: {output: 1}\n"})
	script = answers(scripted.Reply(scripted.Text("42")))
	got = invocation{env: serve(t, script)}.run(t, "graph", "run", elsewhere["g.yaml"], "--agents", filepath.Dir(f["g.yaml"]), "--mock", elsewhere["m.yaml"], "--input", "{}", "--json").exits(t, 0)
	require.Contains(t, got.out, `"terminal":{"general":42}`)
	require.NoError(t, script.Done())

	got = invocation{env: []string{"OPENAI_BASE_URL=http://127.0.0.1:1"}}.run(t, "graph", "run", f["g.yaml"], "--input", "{}").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "set OPENAI_MODEL")
	require.NoError(t, os.WriteFile(f["general.md"], []byte("---\nname: general-support\ntols: [x]\n---\n"), 0o600))
	got = invocation{}.run(t, "graph", "run", f["g.yaml"], "--input", "{}").exits(t, cli.StatusUsage)
	require.Contains(t, got.out, `spec.agents[2].agentRef: there is no agent "general-support": general.md is not valid: line 3: unknown key "tols"; did you mean "tools"?`)
}

// TestGraphRunCases: the command gives the same as a case that is run in Go. JSON is
// YAML, so that mocks can be JSON.
func TestGraphRunCases(t *testing.T) {
	t.Parallel()
	const file = "../agentgraph/testdata/exec.yaml"
	cases := must.Get(graphtest.LoadCaseFile(file))
	data := must.Get(os.ReadFile(file))
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for _, c := range cases {
		var texts struct {
			Graph       string
			Input, Mock any
		}
		require.NoError(t, dec.Decode(&texts))
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			mocks := must.Get(json.Marshal(texts.Mock))
			input := must.Get(json.Marshal(texts.Input))
			f := files(t, map[string]string{"g.yaml": texts.Graph, "m.json": string(mocks)})
			var out, said bytes.Buffer
			status := cli.Run(t.Context(), []string{"graph", "run", f["g.yaml"], "--json", "--mock", f["m.json"], "--input", string(input)}, cli.Streams{Stdout: &out, Stderr: &said})
			want := must.Get(c.Run(t.Context()))
			data := must.Get(json.Marshal(want.Result))
			require.JSONEq(t, string(data), out.String(), said.String())
			require.Equal(t, want.Result.Status == agentgraph.Failed, status == cli.StatusFailed)
			require.Equal(t, want.Result.Status != agentgraph.Failed, status == cli.StatusAnswered)
		})
	}
}

// TestGraphRunApproval: a run that waits for a person can be gone on with.
func TestGraphRunApproval(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"m.yaml": "a: {output: 1}\nb: {output: 2}\n", "g.yaml": `apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: careful, version: 1.0.0}
spec:
  agents: [{id: a, agentRef: x}, {id: b, agentRef: y, when: human, ask: "May\nI?"}]
  edges: [{from: a, to: b}]
  entrypoint: a
`})
	in := invocation{home: t.TempDir()}
	run := func(rest ...string) outcome {
		return in.run(t, append([]string{"graph", "run", f["g.yaml"], "--mock", f["m.yaml"]}, rest...)...)
	}
	again := "arbor graph run " + f["g.yaml"] + " --session s1 --resume --mock " + f["m.yaml"]
	got := run("--text", "hi", "--session", "s1", "--json").exits(t, cli.StatusApproval)
	require.Contains(t, got.out, `{"status":"waiting","order":["a"],`)
	const asks = "(?m)^  approve_agent → waits for approval, call \\w+, with 44 bytes of arguments in 4 lines:\n" +
		"  │ agent: \"b\"\n  │ question: \"May\\\\n\"\n  │           \"I\\?\"\n  │ input: 1\n"
	require.Regexp(t, asks, got.err)
	m := regexp.MustCompile(`(?m)^arbor: b waits for an approval \(May I\?\): ` + regexp.QuoteMeta(again) + ` --approve (\w+), or --deny (\w+) --reason TEXT\n$`).FindStringSubmatch(got.err)
	require.Len(t, m, 3, got.err)
	require.Equal(t, m[1], m[2])
	waits := run("--resume", "--session", "s1").exits(t, cli.StatusApproval, "nobody has decided")
	require.Contains(t, waits.out, "a  done       1\nb  waiting\nstatus: waiting\n")
	require.Regexp(t, asks, waits.out)
	require.Equal(t, got.err[strings.Index(got.err, "arbor: "):], waits.err)
	require.Equal(t, outcome{0, "a  done       1\nb  done       2\nstatus: completed\n", ""}, run("--resume", "--session", "s1", "--approve", m[1]))

	got = run("--text", "hi", "--session", "s2")
	call := regexp.MustCompile(`--approve (\w+)`).FindStringSubmatch(got.err)[1]
	got = run("--resume", "--session", "s2", "--deny", call, "--reason", "not now").exits(t, cli.StatusFailed)
	require.Contains(t, got.out, "b  failed     denied: not now\n")

	got = run("--text", "hi").exits(t, cli.StatusApproval)
	require.Regexp(t, "^a  done       1\nb  waiting\nstatus: waiting\n"+asks[len("(?m)^"):]+"$", got.out)
	require.Equal(t, "arbor: b waits for an approval (May I?), and the run is not stored: give --session or --db to resume it later\n", got.err)
}
