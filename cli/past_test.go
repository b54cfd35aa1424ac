package cli_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

func TestHistory(t *testing.T) {
	t.Parallel()
	s := tell(t)
	got := s.sessions(t, "history", "story")
	require.Equal(t, `SEQ  TIME (UTC)           ACTIVE   WHAT
1    2026-03-01 12:00:00  -        user "I was charged twice"
2    2026-03-01 12:00:00  support  support begins
6    2026-03-01 12:00:03  support  support answers "One <moment>."; support calls lookup, research
7    2026-03-01 12:00:06  support  lookup: 2 rows
8    2026-03-01 12:00:09  support  ↳ researcher begins
11   2026-03-01 12:00:12  support  ↳ researcher answers "A retry </div> of the shop."
12   2026-03-01 12:00:15  support  research: A retry </div> of the shop.
13   2026-03-01 12:00:18  support  state order, turn:tries
15   2026-03-01 12:00:21  support  support calls transfer_to_agent
18   2026-03-01 12:00:24  billing  support → billing
19   2026-03-01 12:00:27  billing  billing begins
23   2026-03-01 12:00:30  billing  billing answers "<b>Refunded</b> "ch_2". Anything else?"
24   2026-03-01 12:00:33  billing  user "And <script>alert(2)</script>?"
25   2026-03-01 12:00:33  billing  billing begins
27   2026-03-01 12:00:36  billing  billing failed: no <answer> ␛[31mcame
`, got.out)
	require.Empty(t, got.err)

	lines := strings.Split(strings.TrimSpace(s.sessions(t, "history", "story", "--json").out), "\n")
	require.Len(t, lines, 15)
	require.JSONEq(t, `{"seq":18,"time":"2026-03-01T12:00:24Z","what":"support → billing","active":"billing","events":3}`, lines[9])

	s.sessions(t, "fork", "story", "--at", "7", "--to", "fork")
	got = s.sessions(t, "history", "fork")
	require.True(t, strings.HasSuffix(got.out, "lookup: 2 rows\n"), got.out)
	require.Equal(t, "arbor: a fork of story, with which it shares all until 7\n", got.err)
}

func TestShowAt(t *testing.T) {
	t.Parallel()
	s := tell(t)
	got := s.sessions(t, "show", "story", "--at", "13")
	require.Equal(t, `user: I was charged twice
support: One <moment>.
  lookup(order=7, note="<script>alert(1)</script>") → 2 rows
    id: ch_1, amount: 20 €
    id: ch_2, amount: 20 €
  research(question="why?") → A retry </div> of the shop.
`, got.out)
	require.Equal(t, `arbor: at position 13 of 27, 2026-03-01 12:00:18; active: support; state: {"order":"7 & more","turn:tries":1}; tokens: 130 in, 13 out`+"\n", got.err)
	got = s.sessions(t, "show", "story", "--at", "6")
	require.Contains(t, got.err, "; waiting: lookup, research; ")
	require.Equal(t, outcome{0, "", "arbor: at position 0 of 27; tokens: 0 in, 0 out\n"}, s.sessions(t, "show", "story", "--at", "0"))

	got = s.sessions(t, "show", "story", "--at", "5", "--json")
	require.Equal(t, 5, strings.Count(got.out, "\n"))
	require.Empty(t, got.err)
	last := must.JSON[event.Event](got.out[strings.LastIndex(strings.TrimSpace(got.out), "\n")+1:])
	require.EqualValues(t, 5, last.Seq)
	require.Contains(t, s.sessions(t, "show", "story", "--at", "6", "--usage").out, "total    1        0          100")
	require.Empty(t, s.sessions(t, "show", "story").err, "without --at only the conversation")
}

func TestShowState(t *testing.T) {
	t.Parallel()
	s := tell(t)
	require.JSONEq(t, `{"session":"story","seq":8,"time":"2026-03-01T12:00:09Z","active":"support","turn":"open","state":{},
		"pending":[{"callId":"c2","name":"research","runId":"r1"}],
		"used":[{"agent":"support","model":"m","answers":1,"inputTokens":100,"cachedTokens":0,"outputTokens":10}]}`,
		s.sessions(t, "show", "story", "--at", "8", "--state").out)
	got := s.sessions(t, "show", "story", "--state", "--json")
	require.Equal(t, 1, strings.Count(got.out, "\n"))
	require.Contains(t, got.out, `"active":"billing","turn":"over","state":{"order":"7 & more"},"pending":[]`)
	require.JSONEq(t, `{"session":"story","seq":0,"turn":"none","state":{},"pending":[],"used":[]}`, s.sessions(t, "show", "story", "--at", "0", "--state").out)
}

// The view is what the model was asked, and nothing is asked now.
func TestShowView(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.env = []string{"OPENAI_BASE_URL=http://127.0.0.1:1", "OPENAI_MODEL=m"}
	got := s.sessions(t, "show", "story", "--at", "19", "--view", "billing", "--tree", desk)
	require.Contains(t, got.out, "system: You handle charges, invoices and refunds.\n")
	require.Contains(t, got.out, "\nuser: I was charged twice\n")
	require.Contains(t, got.out, "[support] One <moment>.")
	require.Contains(t, got.out, "(tools: transfer_to_agent)", "its policy allows the parent, on arrival too")
	require.NotContains(t, got.out, "Refunded", "that came later")
	require.Regexp(t, `^arbor: what the model of billing is shown at position 19 of 27: \d+ messages, 1 tool, \d+ tokens\n$`, got.err)

	got = s.sessions(t, "show", "story", "--at", "12", "--view", "support", "--tree", desk, "--json")
	var view struct {
		Agent    string
		Seq      int64
		Tokens   int
		Messages []struct {
			Role, Content string
			ToolCallID    string `json:"tool_call_id"`
		}
		Tools []struct{ Function struct{ Name string } }
	}
	require.NoError(t, json.Unmarshal([]byte(got.out), &view))
	require.Equal(t, "support", view.Agent)
	require.Positive(t, view.Tokens)
	var roles []string
	for _, m := range view.Messages {
		roles = append(roles, m.Role)
	}
	require.Equal(t, []string{"system", "user", "assistant", "tool", "tool"}, roles)
	require.Equal(t, "c2", view.Messages[4].ToolCallID)
	require.Equal(t, "transfer_to_agent", view.Tools[0].Function.Name)
	require.Contains(t, s.sessions(t, "show", "story", "--at", "12", "--view", "support", "--tree", desk).out, "  assistant calls lookup(order=7, ")

	own := invocation{program: "embedded", home: s.home}
	got = own.run(t, "sessions", "show", "story", "--db", s.db, "--view", "tech").exits(t, 0)
	require.Contains(t, got.out, "[billing] <b>Refunded</b>")
	require.Equal(t, cli.StatusUsage, own.run(t, "sessions", "show", "story", "--db", s.db, "--tree", desk).status, "the program has its own tree")
	got = invocation{program: "endless"}.run(t, "sessions", "show", "story", "--db", s.db, "--view", "endless")
	require.Equal(t, cli.StatusUsage, got.status)
	require.Contains(t, got.err, "no model of its own")
}

func TestFork(t *testing.T) {
	t.Parallel()
	s := tell(t)
	before := s.sessions(t, "export", "story").out
	got := s.sessions(t, "fork", "story", "--at", "23", "--to", "other")
	require.Equal(t, "other\n", got.out)
	require.Equal(t, "arbor: session other shares 23 events with story; to continue: arbor run PATH --session other \"…\" --db "+s.db+"\n", got.err)
	got = s.sessions(t, "fork", "story", "--at", "12")
	require.Regexp(t, `^story-[0-9a-f]{6}\n$`, got.out)
	middle := strings.TrimSpace(got.out)
	require.Contains(t, got.err, "arbor resume PATH --session "+middle+" --db "+s.db)
	require.Contains(t, s.sessions(t, "fork", "story").err, " shares 27 events")
	require.Equal(t, "none\n", s.sessions(t, "fork", "story", "--at", "0", "--to", "none").out)
	require.Empty(t, s.sessions(t, "show", "none").out)
	require.Equal(t, "[]\n", s.sessions(t, "export", "none", "--format", "openai").out)
	require.Contains(t, s.sessions(t, "export", "none", "--format", "html").out, "Session none")

	list := s.sessions(t, "ls").out
	require.Regexp(t, `(?m)^ID +EVENTS +CREATED \(UTC\) +UPDATED \(UTC\) +FORK OF$`, list)
	require.Regexp(t, `(?m)^other +23 .* story at 23$`, list)
	require.Contains(t, s.sessions(t, "ls", "--json").out, `"parent":"story","parentSeq":23}`)

	// Both go on by themselves, and the fork in the middle of a turn ends it.
	s.env = nil
	run := s.run(t, "run", desk, "thank you", "--session", "other", "--db", s.db).exits(t, 0)
	require.True(t, strings.HasPrefix(run.out, "billing: "), run.out)
	run = s.run(t, "resume", desk, "--session", middle, "--db", s.db).exits(t, 0)
	require.Contains(t, run.out, "support")
	require.Equal(t, before, s.sessions(t, "export", "story").out, "the other session stays as it is")
}

// Wherever a session is forked, the fork goes on, and what was said in it can be
// carried over.
func TestForkAnywhere(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for _, at := range []string{"0", "1", "2", "6", "7", "8", "11", "12", "13", "15", "18", "19", "23", "24", "25", "27"} {
		t.Run(at, func(t *testing.T) {
			run := func(stdin string, args ...string) string {
				t.Helper()
				var out, say strings.Builder
				streams := cli.Streams{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &say}
				require.Equal(t, 0, cli.Run(t.Context(), append(args, "--db", s.db), streams), say.String())
				return out.String()
			}
			said := []string{"I was charged twice"}
			if at == "0" {
				said = nil
			}
			for i, goOn := range [][]string{{"resume", desk}, {"run", desk, "my invoice"}} {
				id := fmt.Sprintf("fork%s-%d", at, i)
				require.Equal(t, id+"\n", run("", "sessions", "fork", "story", "--at", at, "--to", id))
				run("", append(goOn, "--session", id)...)
				if i == 1 {
					said = append(said, "my invoice")
				}
				messages := run("", "sessions", "export", id, "--format", "openai")
				for _, words := range said {
					require.Contains(t, messages, `{"role":"user","content":"`+words+`"}`)
				}
				if len(said) > 0 {
					run(messages, "sessions", "import", "-", "--agent", "support", "--to", id+"-copy")
					require.Equal(t, carried(t, messages), canonical(t, run("", "sessions", "export", id+"-copy", "--format", "openai")))
				}
				if at != "8" { // there the sub-agent is left unfinished
					require.NotContains(t, run("", "sessions", "export", id, "--format", "html"), "not finished")
				}
				run("", "sessions", "diff", "story", id)
			}
		})
	}
}

// A fork of a session that waits for an approval goes on without the call, which runs in the session alone.
func TestForkThatWaits(t *testing.T) {
	t.Parallel()
	s := told{invocation{program: "careful", home: t.TempDir()}, filepath.Join(t.TempDir(), "s.db")}
	s.env = serve(t, answers(scripted.Reply(scripted.Call("refund", "{}")), scripted.Reply(scripted.Text("Refunded.")), scripted.Reply(scripted.Text("Not refunded."))))
	run := s.run(t, "run", "refund it", "--session", "a", "--db", s.db).exits(t, cli.StatusApproval)
	call := regexp.MustCompile(`--approve (\S+) `).FindStringSubmatch(run.err)[1]
	fork := s.sessions(t, "fork", "a", "--to", "b")
	require.Contains(t, fork.err, "session b shares 6 events with a; to continue: careful resume --session b --db "+s.db+"\n")

	run = s.run(t, "resume", "--session", "b", "--approve", call, "--db", s.db).exits(t, cli.StatusUsage)
	require.Contains(t, run.err, "waits in the session that this one was forked from, and is decided there")
	run = s.run(t, "resume", "--session", "b", "--deny", call, "--reason", "Not twice", "--db", s.db).exits(t, 0)
	require.NotContains(t, run.out, "refund → done")
	run = s.run(t, "resume", "--session", "a", "--approve", call, "--db", s.db).exits(t, 0)
	require.Contains(t, run.out, "refund → done")
}

// A session can be looked at and forked while another process is in a turn of it,
// and the turn does not notice.
func TestForkWhileATurnRuns(t *testing.T) {
	t.Parallel()
	s := tell(t)
	slowly, asked, release := slow("Which router?")
	run := invocation{env: serve(t, answers(scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech"}`)), slowly))}.
		start(t, "run", desk, "my line is slow", "--session", "s1", "--db", s.db)
	receive(t, asked)
	require.Contains(t, s.sessions(t, "show", "s1", "--at", "7").err, "active: tech")
	require.Contains(t, s.sessions(t, "show", "s1", "--state", "--json").out, `"turn":"open"`)
	s.sessions(t, "fork", "s1", "--at", "1", "--to", "s2")
	s.sessions(t, "fork", "s1", "--to", "s3")
	s.sessions(t, "edit", "s1", "my invoice", "--last", "--to", "s4")
	for _, id := range []string{"s2", "s3", "s4"} {
		s.run(t, "resume", desk, "--session", id, "--db", s.db).exits(t, 0)
	}
	close(release)
	require.Equal(t, outcome{0, "support → tech\ntech: Which router?\n", ""}, run.wait(t))
	require.Regexp(t, `(?m)^active +tech +billing$`, s.sessions(t, "diff", "s1", "s4").out)
}

func TestEdit(t *testing.T) {
	t.Parallel()
	s := tell(t)
	got := s.sessions(t, "edit", "story", "--at", "1", "My router is slow", "--to", "slow")
	require.Equal(t, "slow\n", got.out)
	require.Contains(t, got.err, "session slow shares 0 events with story; to continue: arbor resume PATH --session slow")
	run := s.run(t, "resume", desk, "--session", "slow", "--db", s.db).exits(t, 0)
	require.Contains(t, run.out, "support → tech")

	s.stdin = "Thank you,\nthat is all\n"
	id := strings.TrimSpace(s.sessions(t, "edit", "story", "--last").out)
	require.True(t, strings.HasSuffix(s.sessions(t, "show", id).out, "\nuser: Thank you,\nthat is all\n"))
	require.Contains(t, s.sessions(t, "history", id).err, "shares all until 23")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	s := tell(t)
	s.sessions(t, "edit", "story", "--at", "24", "Thank you", "--to", "thanks")
	s.run(t, "resume", desk, "--session", "thanks", "--db", s.db).exits(t, 0)
	got := s.sessions(t, "diff", "story", "thanks")
	require.Empty(t, got.err)
	require.Regexp(t, regexp.MustCompile(`^They share the first 23 events, until: billing answers "<b>Refunded</b> "ch_2"\. Anything else\?"

--- story, from 24 to 27
user: And <script>alert\(2\)</script>\?
\(billing failed: no <answer> ␛\[31mcame\)

--- thanks, from 24 to 28
user: Thank you
billing: I am the offline model: .*

AT THE END +story +thanks
events +27 +28
answers +4 +5
input tokens +480 +\d+
output tokens +33 +\d+
$`), got.out)

	s.sessions(t, "fork", "story", "--at", "12", "--to", "short")
	got = s.sessions(t, "diff", "short", "story")
	require.NotContains(t, got.out, "--- short")
	require.Contains(t, got.out, "--- story, from 13 to 27\nsupport → billing")
	require.Regexp(t, `(?m)^active +support +billing$`, got.out)
	require.Regexp(t, `(?m)^state order +- +7 & more$`, got.out)
	require.Contains(t, s.sessions(t, "diff", "story", "story").out, "\nThere is no difference.\n")
	require.NotContains(t, s.sessions(t, "diff", "story", "story").out, "AT THE END")

	s.sessions(t, "fork", "story", "--at", "0", "--to", "none")
	require.Contains(t, s.sessions(t, "diff", "none", "short").out, "Nothing is in common.\n")

	var d struct {
		Common int64
		Shared int64
		Same   bool
		A, B   struct {
			Session, Active string
			Seq             int64
			Events          []event.Event
		}
	}
	got = s.sessions(t, "diff", "short", "story", "--json")
	require.Equal(t, 1, strings.Count(got.out, "\n"))
	require.NoError(t, json.Unmarshal([]byte(got.out), &d))
	require.EqualValues(t, 12, d.Common)
	require.EqualValues(t, d.Common, d.Shared)
	require.False(t, d.Same)
	require.Equal(t, "support", d.A.Active)
	require.Empty(t, d.A.Events)
	require.Len(t, d.B.Events, 15)
	require.EqualValues(t, 27, d.B.Seq)
}

// Without a terminal a replay is the transcript, at once.
func TestReplay(t *testing.T) {
	t.Parallel()
	s := tell(t)
	require.Equal(t, s.sessions(t, "show", "story").out, s.sessions(t, "replay", "story", "--speed", "0.001").out)
	require.Equal(t, s.sessions(t, "show", "story", "--at", "12").out, s.sessions(t, "replay", "story", "--at", "12").out)
}

// What is wrong ends with status 2 and a line that says what to do, and nothing is
// made.
func TestMisuseOfThePast(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for name, tt := range map[string]struct {
		args []string
		say  string
	}{
		"history of nothing":        {[]string{"history", "nobody"}, `there is no session "nobody"`},
		"history of what":           {[]string{"history"}, "ID is missing"},
		"beyond the end":            {[]string{"show", "story", "--at", "28"}, "--at 28: session story has the positions 0 to 27"},
		"before the beginning":      {[]string{"show", "story", "--at", "-1"}, "--at -1: session story has the positions 0 to 27"},
		"no number":                 {[]string{"show", "story", "--at", "x"}, "--at x: give a whole number"},
		"two things to show":        {[]string{"show", "story", "--state", "--usage"}, "--state and --usage exclude each other"},
		"view without a tree":       {[]string{"show", "story", "--view", "billing"}, "--view needs --tree PATH"},
		"tree without a view":       {[]string{"show", "story", "--tree", desk}, "--tree needs --view"},
		"view of nobody":            {[]string{"show", "story", "--tree", desk, "--view", "bill"}, "--view bill: there is no such agent; the tree has support, billing, tech"},
		"no tree":                   {[]string{"show", "story", "--tree", "no/such", "--view", "billing"}, "no/such: there is no such file or folder"},
		"fork inside of a step":     {[]string{"fork", "story", "--at", "4"}, "position 4 is in the middle of a step, which begins after 2 and ends at 6; arbor sessions history"},
		"fork where":                {[]string{"fork", "story", "--at", "17"}, "arbor sessions history story --db " + s.db + " lists the positions"},
		"fork beyond the end":       {[]string{"fork", "story", "--at", "28"}, "the positions 0 to 27"},
		"fork onto itself":          {[]string{"fork", "story", "--to", "story"}, `session "story" exists already: give another id with --to`},
		"fork to a bad id":          {[]string{"fork", "story", "--to", " x"}, "without space around it"},
		"fork of nothing":           {[]string{"fork", "nobody"}, `there is no session "nobody"`},
		"edit which":                {[]string{"edit", "story", "hi"}, "--at or --last must name the message to edit; arbor sessions history story"},
		"edit an answer":            {[]string{"edit", "story", "hi", "--at", "3"}, "--at 3: session story has no message of the user at this position; it has them at 1, 24"},
		"edit with nothing":         {[]string{"edit", "story", "", "--at", "1"}, "the message is empty"},
		"edit with no UTF-8":        {[]string{"edit", "story", "\xff", "--at", "1"}, "not valid UTF-8"},
		"edit what":                 {[]string{"edit", "--last"}, "ID is missing"},
		"edit with two texts":       {[]string{"edit", "story", "two", "words", "--last"}, `1 argument too many: "words"; put a message of several words in quotes`},
		"edit two ways":             {[]string{"edit", "story", "x", "--last", "--at", "1"}, "--at and --last exclude each other"},
		"edit onto itself":          {[]string{"edit", "story", "x", "--last", "--to", "story"}, "exists already"},
		"diff of one":               {[]string{"diff", "story"}, "B is missing"},
		"diff with nothing":         {[]string{"diff", "story", "nobody"}, `there is no session "nobody"`},
		"replay backwards":          {[]string{"replay", "story", "--speed", "-1"}, "--speed -1"},
		"replay at no speed at all": {[]string{"replay", "story", "--speed", "NaN"}, "--speed NaN"},
		"replay beyond the end":     {[]string{"replay", "story", "--at", "99"}, "the positions 0 to 27"},
		"export beyond the end":     {[]string{"export", "story", "--at", "99"}, "the positions 0 to 27"},
		"import for whom":           {[]string{"import", "x.json"}, "--agent is missing"},
		"import for nobody":         {[]string{"import", "x.json", "--agent", "user"}, "--agent: "},
		"import of no file":         {[]string{"import", "no/such.json", "--agent", "a"}, "no/such.json"},
		"import of what":            {[]string{"import", "--agent", "a"}, "FILE is missing"},
		"import to a bad id":        {[]string{"import", "-", "--agent", "a", "--to", "a\nb"}, "without control characters"},
		"follow from nowhere":       {[]string{"follow", "story", "--after", "x"}, "--after x: give a position in the session"},
	} {
		t.Run(name, func(t *testing.T) {
			got := s.try(t, tt.args...).exits(t, cli.StatusUsage)
			require.Contains(t, got.err, tt.say)
			require.Empty(t, got.out)
			require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
		})
	}
	require.Equal(t, 2, strings.Count(s.sessions(t, "ls").out, "\n"), "nothing was made")
	for _, args := range [][]string{{"history", "x"}, {"fork", "x"}, {"edit", "x", "y", "--last"}, {"diff", "x", "y"}, {"replay", "x"}, {"follow", "x"}, {"export", "x"}} {
		got := invocation{}.run(t, append(append([]string{"sessions"}, args...), "--db", "no/such.db")...)
		require.Equal(t, cli.StatusUsage, got.status)
		require.Contains(t, got.err, "no/such.db: there is no such sessions' file")
		got = invocation{}.run(t, append(append([]string{"sessions"}, args...), "--db", ":memory:")...)
		require.Equal(t, cli.StatusUsage, got.status)
		require.Contains(t, got.err, ":memory:")
	}
}
