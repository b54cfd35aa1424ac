package cli_test

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

const deskCases = `cases:
  - {name: refund, say: I was charged twice, path: support > billing, tags: [money, en]}
  - {name: router, say: My router is slow, path: support > tech, tags: [en]}
  - {name: greeting, say: Good morning, path: support}
`

// casesIn writes files of cases to a folder, and returns their paths in the order of the texts.
func casesIn(t *testing.T, texts ...string) (files []string) {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		file := filepath.Join(dir, string(rune('a'+i))+".yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		files = append(files, file)
	}
	return files
}

func TestEval(t *testing.T) {
	t.Parallel()
	good := casesIn(t, deskCases)[0]
	got := invocation{}.run(t, "eval", desk, good).exits(t, 0)
	require.Regexp(t, `(?m)^cases passed +3 of 3, 100 % \(44–100 %\)$`, got.out)
	require.Regexp(t, `(?m)^… by tag +en 2/2, money 1/1$`, got.out)
	require.Regexp(t, `(?m)^first hop right +3 of 3`, got.out)
	require.NotContains(t, got.out, "FAIL")
	require.Equal(t, 1, strings.Count(got.err, "no model is used"), got.err)

	bad := casesIn(t, strings.Replace(deskCases, "support > tech", "support > billing", 1))[0]
	got = invocation{}.run(t, "eval", desk, bad).exits(t, cli.StatusFindings)
	require.Contains(t, got.out, "FAIL "+bad+":3: router\n     user: My router is slow\n       path: got support > tech, want support > billing\n       tech said: ")
	require.Contains(t, got.err, "arbor: offline: 66.7 % of the cases passed, and 100.0 % is asked for\n")

	for args, status := range map[string]int{
		"--threshold 0.6":               0,
		"--threshold 0.67":              cli.StatusFindings,
		"--threshold 0.6 --lower-bound": cli.StatusFindings,
		"--threshold 0.2 --lower-bound": 0,
		"--threshold 0":                 0,
		"--tag en --tag money":          0,
		"--tag en":                      cli.StatusFindings,
		"--run ^re|gree":                0,
		"--repeat 3 --parallel 2":       cli.StatusFindings,
	} {
		invocation{}.run(t, append([]string{"eval", desk, bad}, strings.Fields(args)...)...).exits(t, status, args)
	}

	got = invocation{}.run(t, "eval", desk, good, bad, "--tag", "money", "--format", "markdown").exits(t, 0)
	require.Contains(t, got.out, "| | offline |\n|---|---|\n| right agent at the end | 2 of 2, 100 % (34–100 %) |\n")
}

func TestEvalFiles(t *testing.T) {
	t.Parallel()
	files := casesIn(t, deskCases, strings.Replace(deskCases, "support > tech", "support > billing", 1))
	good, bad := files[0], files[1]
	dir := t.TempDir()
	was, report := filepath.Join(dir, "was.json"), filepath.Join(dir, "report.xml")
	require.NoError(t, os.WriteFile(report, []byte(strings.Repeat("an earlier one ", 10000)), 0o600))
	got := invocation{}.run(t, "eval", desk, good, "--repeat", "2", "--format", "junit", "--out", report, "--save", was)
	require.Equal(t, 0, got.status, got.err)
	require.Empty(t, got.out)
	data := must.Get(os.ReadFile(report))
	var suites struct {
		Suites []struct {
			Tests int `xml:"tests,attr"`
		} `xml:"testsuite"`
	}
	require.NoError(t, xml.Unmarshal(data, &suites))
	require.Equal(t, 6, suites.Suites[0].Tests)

	// The baseline is compared by the names of cases, wherever they stand.
	got = invocation{}.run(t, "eval", desk, good, "--baseline", was).exits(t, 0)
	now := filepath.Join(dir, "now.json")
	got = invocation{}.run(t, "eval", desk, bad, "--baseline", was, "--save", now).exits(t, cli.StatusFindings)
	require.Contains(t, got.err, "arbor: offline: router passed 2 of 2 times, and now 0 of 1\n")
	require.NotContains(t, got.err, "is asked for")
	got = invocation{}.run(t, "eval", desk, bad, "--baseline", now).exits(t, 0, "what failed before is not worse")
	got = invocation{}.run(t, "eval", desk, bad, "--baseline", now, "--threshold", "0.9").exits(t, cli.StatusFindings)

	got = invocation{}.run(t, "eval", desk, good, "--format", "json").exits(t, 0)
	r := must.JSON[eval.Report](got.out)
	require.Equal(t, []string{"support", "billing"}, r.Subjects[0].Outcomes[0].Turns[0].Path)
	require.Equal(t, 2, r.Subjects[0].Outcomes[0].Line)
}

// TestEvalModels plays two models side by side, with a judge and its sample.
func TestEvalModels(t *testing.T) {
	t.Parallel()
	cases := casesIn(t, "say: I was charged twice\npath: support > billing\njudge: The answer is friendly.\n")[0]
	transfer := scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`))
	astray := scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`))
	verdict := func(yes string) scripted.Answer {
		return scripted.Reply(scripted.Text(`{"why":"I see","true":` + yes + `}`))
	}
	script := scripted.New().
		Add("large", transfer, scripted.Reply(scripted.Text("Gladly."))).
		Add("small", astray, scripted.Reply(scripted.Text("No \x1b[2J."))).
		Add("judge", verdict("true"), verdict("true"), verdict("true"), verdict("false"))
	sample := filepath.Join(t.TempDir(), "sample.yaml")
	require.NoError(t, os.WriteFile(sample, []byte("- {say: Hi, answer: Hello!, statement: It greets., true: true}\n- {say: Hi, answer: Go., statement: It greets., true: false}\n"), 0o600))
	env := serve(t, script)
	got := invocation{env: env}.run(t, "eval", desk, cases, "--model", "large", "--model", "small", "--judge", "judge", "--judge-sample", sample, "--parallel", "1").exits(t, cli.StatusFindings)
	require.NoError(t, script.Done())
	require.Regexp(t, `(?m)^ +large +small$`, got.out)
	require.Regexp(t, `(?m)^cases passed +1 of 1, 100 % \(21–100 %\) +0 of 1, 0 % \(0–79 %\)$`, got.out)
	require.Regexp(t, `(?m)^judged true +1 of 1.* 0 of 1`, got.out)
	require.Contains(t, got.out, ": I was charged twice (small)\n")
	require.Contains(t, got.out, "judge: the judge finds it untrue that The answer is friendly.: I see")
	require.Contains(t, got.out, "The judge is judge. On the labelled sample it agrees with people in 1 of 2, 50 % (9–91 %), Cohen's kappa 0.00; it took 1 for true that were not")
	require.Contains(t, got.out, "small: what support decided")
	require.NotContains(t, got.out, "\x1b")
	require.Contains(t, got.err, "arbor: small: 0.0 % of the cases passed")
	require.NotContains(t, got.err, "large:")
}

// TestEvalTrees plays two trees side by side.
func TestEvalTrees(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "desk")
	require.NoError(t, os.CopyFS(other, os.DirFS(desk)))
	file := filepath.Join(other, "tech.md")
	data := must.Get(os.ReadFile(file))
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), "description:", "description: Knows nothing of it #", 1)), 0o600))
	got := invocation{}.run(t, "eval", desk, casesIn(t, deskCases)[0], "--with", other).exits(t, cli.StatusFindings)
	require.Regexp(t, `(?m)^ +testdata/desk, offline +.*/desk, offline$`, got.out)
	require.Regexp(t, `(?m)^cases passed +3 of 3.* 2 of 3`, got.out)
	require.Contains(t, got.err, "arbor: "+other+", offline: 66.7 % of the cases passed")
}

// TestEvalPrograms evaluates trees that are part of a program.
func TestEvalPrograms(t *testing.T) {
	t.Parallel()
	files := casesIn(t, deskCases, "say: Hello\npath: solo\n")
	got := invocation{program: "embedded"}.run(t, "eval", files[0]).exits(t, 0)
	got = invocation{program: "func"}.run(t, "eval", files[1]).exits(t, 0)
	require.Regexp(t, `(?m)^ +offline$`, got.out)
	got = invocation{program: "maker"}.run(t, "eval", casesIn(t, "{say: Hello, path: maker, says: made}")[0])
	require.Equal(t, 0, got.status, got.err)
	require.Regexp(t, `(?m)^ +maker$`, got.out)
	require.Empty(t, got.err)
	got = invocation{program: "maker"}.run(t, "eval", files[0], "--model", "x").exits(t, 2)
}

// TestEvalInterrupted reports the cases that were played when an interrupt came.
func TestEvalInterrupted(t *testing.T) {
	t.Parallel()
	cases := casesIn(t, "cases:\n  - {name: first, say: Hi, path: support}\n  - {name: second, say: Wait, path: support}\n")[0]
	answer, asked, _ := slow("never")
	env := serve(t, answers(scripted.Reply(scripted.Text("Hello.")), answer))
	saved := filepath.Join(t.TempDir(), "saved.json")
	run := invocation{env: env}.start(t, "eval", desk, cases, "--parallel", "1", "--save", saved)
	receive(t, asked)
	require.NoError(t, run.Process.Signal(syscall.SIGINT))
	got := run.wait(t).exits(t, cli.StatusInterrupted)
	require.Regexp(t, `(?m)^cases passed +1 of 1`, got.out)
	require.Contains(t, got.err, "arbor: interrupted: 1 of 2 cases were played\n")
	require.NoFileExists(t, saved)
}

// TestEvalRefused names all mistakes, and plays nothing.
func TestEvalRefused(t *testing.T) {
	t.Parallel()
	script := answers()
	env := serve(t, script)
	files := casesIn(t, "cases:\n  - {say: Hi, pth: support}\n  - {say: Hi}\n", "- {say: Hi, says: '/(/'}\n", deskCases, "- {say: Hi, path: support > biling}\n- {say: Ho, tools: [nothing]}\n", "{}")
	got := invocation{env: env}.run(t, "eval", desk, files[0], files[1], files[2]).exits(t, 2)
	require.Contains(t, got.err, "problems in the files\n")
	for _, want := range []string{files[0] + ":2: unknown key", files[0] + ":3: ", files[1] + ":1: "} {
		require.Contains(t, got.err, want)
	}
	require.Empty(t, got.out)
	got = invocation{env: env}.run(t, "eval", desk, files[3], "--model", "a", "--model", "b").exits(t, 2)
	require.Equal(t, 1, strings.Count(got.err, files[3]+":1: "), got.err)
	require.Equal(t, 1, strings.Count(got.err, files[3]+":2: "), got.err)

	good := files[2]
	for args, want := range map[string]string{
		"":                                   "CASES is missing",
		"none.yaml":                          "none.yaml: there is no such file",
		good + " --repeat 0":                 "--repeat 0: give a whole number of at least 1",
		good + " --parallel 0":               "--parallel 0",
		good + " --threshold 90":             "--threshold 90: give a share from 0 to 1",
		good + " --threshold NaN":            "--threshold NaN",
		good + " --lower-bound":              "--lower-bound needs --threshold",
		good + " --judge-sample s":           "--judge-sample needs --judge",
		good + " --judge m --judge-sample s": "--judge-sample: ",
		good + " --format xml":               "--format xml: choose text, json, junit or markdown",
		good + " --run (":                    "--run: ",
		good + " --run zzz":                  "--run and --tag match none of 3 cases",
		good + " --tag zzz":                  "none of 3 cases",
		good + " --baseline none":            "--baseline: none: there is no such file",
		good + " --baseline " + good:         "it is not a report that --save has written",
		good + " --save none/b.json":         "--save: none/b.json: there is no such file or folder, and no folder none",
		good + " --out testdata":             "--out: testdata: this is a folder, and a file is needed",
		good + " --model a --model a":        "a is given twice",
		good + " --prices none":              "--prices: none: there is no such file",
	} {
		got := invocation{env: env}.run(t, append([]string{"eval", desk}, strings.Fields(args)...)...).exits(t, 2, args)
		require.Contains(t, got.err, want, args)
	}
	got = invocation{}.run(t, "eval", desk, good, "--judge", "m").exits(t, 2)
	require.Contains(t, got.err, "--judge is given, but there is no endpoint")
	require.Empty(t, script.Requests("model"))

	// An endpoint that is not there is no wrong answer.
	got = invocation{env: []string{"OPENAI_BASE_URL=http://127.0.0.1:1/v1", "OPENAI_MODEL=m"}}.run(t, "eval", desk, good).exits(t, cli.StatusFailed)
	require.Contains(t, got.err, "unreachable")

	// One that answers every turn with an error has measured nothing.
	wrong := scripted.Reply(scripted.Status(400, 0))
	got = invocation{env: serve(t, answers(wrong, wrong, wrong))}.run(t, "eval", desk, good, "--threshold", "0")
	require.Equal(t, cli.StatusFailed, got.status, got.err)
	require.Contains(t, got.err, "arbor: model: every turn ended with an error\n")
}

// TestEvalSession writes a session as a case, which passes on the tree that made it.
func TestEvalSession(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in := invocation{home: home}
	for _, say := range []string{"I was charged twice", "Thank you: \"you\" # are\n- kind"} {
		require.Equal(t, 0, in.run(t, "run", desk, say, "--session", "s1").status)
	}
	got := in.run(t, "sessions", "export", "s1", "--format", "case").exits(t, 0)
	require.Contains(t, got.out, "  - name: s1\n")
	file := casesIn(t, got.out)[0]
	played := in.run(t, "eval", desk, file).exits(t, 0)
	require.Regexp(t, `(?m)^paths right +2 of 2`, played.out)

	other := casesIn(t, strings.Replace(got.out, "support > billing", "support > tech", 1))[0]
	require.Equal(t, cli.StatusFindings, in.run(t, "eval", desk, other).status)
	require.Equal(t, 2, in.run(t, "sessions", "export", "s1", "--format", "cases").status)
}

// TestEvalTape plays cases against what an endpoint has said before.
func TestEvalTape(t *testing.T) {
	t.Parallel()
	cases := casesIn(t, "cases:\n  - {say: I was charged twice, path: support > billing}\n  - {say: Hello, path: support}\n")[0]
	env := serve(t, answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing"}`)), scripted.Reply(scripted.Text("Gladly.")), scripted.Reply(scripted.Text("Hello."))))
	tape := filepath.Join(t.TempDir(), "tape.json")
	first := invocation{env: env}.run(t, "eval", desk, cases, "--record", tape, "--parallel", "1").exits(t, 0)
	again := invocation{}.run(t, "eval", desk, cases, "--replay", tape).exits(t, 0)
	figures := func(out string) string { return out[:strings.Index(out, "seconds a turn")] }
	require.Equal(t, figures(first.out), figures(again.out))
	require.Regexp(t, `(?m)^ +model$`, again.out)
	require.Empty(t, again.err)
}
