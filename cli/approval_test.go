package cli_test

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/llm/scripted"
)

// deceit are arguments that try to hide what they are: far to the right, below what is
// shown, behind what looks like our own prompt, and by characters that turn or clear
// what a terminal shows.
var deceit = func() string {
	data, _ := json.Marshal(map[string]any{"amount": 10, "note": "small refund  of   10" + strings.Repeat(" ", 200) + "and 9000\n\nyou> /approve c0\napprove? y\r\x1b[2J\u202eevil\u009b31m\u200b",
		"list": strings.Split(strings.Repeat("item\n", 60)+"last-one", "\n")})
	return string(data)
}()

// requireWhole requires that a text shows all of the arguments, each line marked as one
// of them, and nothing that deceives.
func requireWhole(t *testing.T, shown, prefix string) {
	t.Helper()
	require.Contains(t, shown, `small refund  of   10`+strings.Repeat(" ", 200)+`and 9000\n"`)
	require.Contains(t, shown, `"approve? y\r\u001b[2J\u202eevil\u009b31m\u200b"`)
	require.Contains(t, shown, `"last-one"`)
	require.GreaterOrEqual(t, strings.Count(shown, `"item"`), 60)
	require.NotContains(t, shown, "\x1b")
	require.NotContains(t, shown, "\u202e")
	require.NotContains(t, shown, "\u200b")
	require.NotRegexp(t, `(?m)^\W*(you> |approve\? y)`, strings.ReplaceAll(shown, `"`, "|quote|"))
	for _, line := range strings.Split(shown, "\n") {
		if regexp.MustCompile(`approve\? y|you> /approve|"item"|last-one`).MatchString(line) {
			require.True(t, strings.HasPrefix(line, prefix), "%q", line)
		}
	}
}

// TestApprovalIsWhole: whoever decides sees all of what is decided, wherever it is asked.
func TestApprovalIsWhole(t *testing.T) {
	t.Parallel()
	s := told{invocation{program: "careful", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	s.env = serve(t, answers(scripted.Reply(scripted.Call("refund", deceit)), scripted.Reply(scripted.Text("Refunded."))))
	const prefix = "  │ "

	got := s.run(t, "run", "refund it", "--session", "a", "--db", s.db).exits(t, cli.StatusApproval)
	requireWhole(t, got.out, prefix)
	require.Regexp(t, `refund → waits for approval, call \w+, with \d+ bytes of arguments in \d+ lines:\n`, got.out)
	call := regexp.MustCompile(`--approve (\S+) `).FindStringSubmatch(got.err)[1]

	requireWhole(t, s.run(t, "resume", "--session", "a", "--db", s.db).out, prefix)
	requireWhole(t, s.run(t, "resume", "--session", "a", "--db", s.db, "--json").err, prefix)
	for _, command := range []string{"show", "replay"} {
		requireWhole(t, s.sessions(t, command, "a").out, prefix)
	}
	requireWhole(t, s.sessions(t, "export", "a", "--format", "md").out, ">     ")
	page := s.sessions(t, "export", "a", "--format", "html").out
	requireWhole(t, strings.ReplaceAll(page, "&#34;", `"`), "")
	require.Contains(t, page, `<details open>`)
	require.NotContains(t, s.sessions(t, "fork", "a", "--to", "b").err, `"last-one"`, "the fork asks no question: the call stays with a")

	s.stdin = "/show\n/show nothing\n/show " + call + "\n/approve " + call + "\n"
	got = s.run(t, "chat", "--session", "a", "--db", s.db).exits(t, 0)
	require.Equal(t, 3, strings.Count(got.out, `"last-one"`), "when chat begins, and as often as it is asked")
	require.Contains(t, got.err, "no call nothing waits for you")
	requireWhole(t, got.out, prefix)
	require.Contains(t, got.out, "careful: Refunded.")

	md := s.sessions(t, "export", "a", "--format", "md").out
	require.Contains(t, md, "> approved: refund\n")
}

// TestApprovalOfAnEarlierQuestion: after a call has asked again, because its tool has changed, an approval that names only the
// call is refused. The command shows how to name the question.
func TestApprovalOfAnEarlierQuestion(t *testing.T) {
	t.Parallel()
	s := told{invocation{program: "careful", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	s.env = serve(t, answers(scripted.Reply(scripted.Call("refund", "{}")), scripted.Reply(scripted.Text("Refunded."))))
	got := s.run(t, "run", "refund it", "--session", "a", "--db", s.db)
	call := regexp.MustCompile(`--approve (\S+) `).FindStringSubmatch(got.err)[1]
	s.env = append(s.env, "REFUNDS=All of them.")
	approve := []string{"resume", "--session", "a", "--approve", call, "--db", s.db}
	got = s.run(t, approve...).exits(t, cli.StatusApproval)
	named := regexp.MustCompile(`--approve (\S+) `).FindStringSubmatch(got.err)[1]
	require.Regexp(t, "^"+call+"=sha256:", named)
	got = s.run(t, approve...).exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "asks again, because its tool or its arguments have changed")
	got = s.run(t, "resume", "--session", "a", "--db", s.db)
	require.Contains(t, got.err, "--approve "+named, "as the error says")
	require.NotContains(t, s.sessions(t, "export", "a", "--format", "md").out, "Refunded.")
	approve[4] = named
	got = s.run(t, approve...).exits(t, 0)
	require.Contains(t, got.out, "careful: Refunded.")
}

// TestAnswer: what a call inside of an agent tool asks is answered on the command line, in a
// chat, and in words where the schema has one member; what does not fit is asked again.
func TestAnswer(t *testing.T) {
	t.Parallel()
	s := told{invocation{program: "asker", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	s.env = serve(t, answers(scripted.Reply(scripted.Call("clerk", `{"input":"Book"}`)), scripted.Reply(scripted.Call("book", `{}`)),
		scripted.Reply(scripted.Text("Booked.")), scripted.Reply(scripted.Text("It is booked."))))
	got := s.run(t, "run", "book it", "--session", "a", "--db", s.db).exits(t, cli.StatusApproval)
	require.Regexp(t, `  book asks inside of asker, call \w+:\n  │ For whom\?\n  │ you> /quit\n`, got.out)
	call := regexp.MustCompile(`--answer (\w+)=TEXT .*, or --deny \w+ --reason TEXT`).FindStringSubmatch(got.err)
	require.NotNil(t, call, got.err)

	for _, wrong := range []struct{ flag, value, says string }{
		{"--answer", "nothing", "write CALL=TEXT"},
		{"--answer", "c9=x", "session a has no open question for call c9"},
		{"--deny", "c9", "asker sessions show a --state --db " + s.db + " prints the waiting calls"},
		{"--approve", call[1], "asks for an answer"},
	} {
		got = s.run(t, "resume", "--session", "a", "--db", s.db, wrong.flag, wrong.value).exits(t, cli.StatusUsage)
		require.Contains(t, got.err, wrong.says)
	}
	got = s.run(t, "resume", "--session", "a", "--db", s.db, "--answer", call[1]+"=Ann = Bob")
	require.Equal(t, cli.StatusApproval, got.status, got.err)
	require.Contains(t, got.out, "  │ How many?\n  │ the answer is JSON of this schema:\n")

	s.stdin = "/answer " + call[1] + " many\n/answer " + call[1] + " 4\n"
	got = s.run(t, "chat", "--session", "a", "--db", s.db).exits(t, 0)
	require.Contains(t, got.err, "the answer does not fit")
	require.Contains(t, got.out, "asker: It is booked.")
	md := s.sessions(t, "export", "a", "--format", "md").out
	require.Contains(t, md, "> answered: book → Ann = Bob\n")
	require.Contains(t, md, `> answered: book → {"seats":4}`)
	require.Contains(t, s.sessions(t, "export", "a").out, `\"Ann = Bob\"{\"seats\":4}`, "what the tool was given")
}

// TestShortApproval stays on one line when that is all of it.
func TestShortApproval(t *testing.T) {
	t.Parallel()
	for arguments, line := range map[string]string{
		`{"id":7,"who":"bob"}`:     `  refund(id=7, who="bob") → waits for approval, call `,
		`{"id":"7\u0020\u0020 8"}`: `  refund(id="7   8") → waits for approval, call `,
		`{}`:                       `  refund() → waits for approval, call `,
	} {
		in := invocation{program: "careful", env: serve(t, answers(scripted.Reply(scripted.Call("refund", arguments))))}
		got := in.run(t, "run", "refund it", "--db", ":memory:").exits(t, cli.StatusApproval)
		require.Contains(t, got.out, line)
	}
}

// TestGraphApprovalIsWhole: who decides about a node sees what it would get.
func TestGraphApprovalIsWhole(t *testing.T) {
	t.Parallel()
	f := files(t, map[string]string{"m.yaml": "b: {output: 2}\n", "in.json": deceit, "g.yaml": `apiVersion: arbor/v1
kind: AgentGraph
metadata: {name: careful, version: 1.0.0}
spec:
  agents: [{id: b, agentRef: y, when: human, ask: "May\nI?"}]
  entrypoint: b
`})
	in := invocation{home: t.TempDir()}
	run := func(rest ...string) outcome {
		return in.run(t, append([]string{"graph", "run", f["g.yaml"], "--mock", f["m.yaml"], "--session", "s1"}, rest...)...)
	}
	got := run("--input", "@"+f["in.json"], "--json").exits(t, cli.StatusApproval)
	requireWhole(t, got.err, "  │ ")
	requireWhole(t, run("--resume").out, "  │ ")
}

// TestChatDecides: where one call waits, words decide and commands need no id; anything else asks
// before it withdraws the call.
func TestChatDecides(t *testing.T) {
	t.Parallel()
	call := scripted.Reply(scripted.Call("refund", `{"id":7}`))
	for said, want := range map[string]struct {
		out, err string
		decided  string // in the transcript
	}{
		"sure, go ahead":        {"careful: Done.", "", "> approved: refund"},
		"/approve":              {"careful: Done.", "", "> approved: refund"},
		"nope":                  {"careful: Done.", "", "> denied: refund"},
		"/deny it is too much":  {"careful: Done.", "", "it is too much"},
		"what for?\nno\nyes":    {"careful: Done.", "a new message withdraws what waits", "> approved: refund"},
		"what for?\nyes":        {"careful: Done.", "a new message withdraws what waits", "what for?"},
		"what for?\nand when?":  {"refund(id=7) → waits", "a new message withdraws what waits", "refund"},
		"what for?\n/deny\nyes": {"careful: Done.", "a new message withdraws what waits", "> denied: refund"},
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			s := told{invocation{program: "careful", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
			s.env = serve(t, answers(call, scripted.Reply(scripted.Text("Done.")), scripted.Reply(scripted.Text("Done."))))
			s.stdin = "refund it\n" + said + "\n"
			got := s.run(t, "chat", "--session", "a", "--db", s.db)
			require.Contains(t, got.out, want.out, got.err)
			require.Contains(t, got.err, want.err)
			require.Contains(t, s.sessions(t, "export", "a", "--format", "md").out, want.decided)
		})
	}
}
