package cli_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

// Wrong command lines and configurations end with status 2 and one clear line.
func TestBadInput(t *testing.T) {
	for name, tt := range map[string]struct {
		args  []string
		env   []string
		stdin string
		say   string
	}{
		"unknown command":        {args: []string{"rnu", "x"}, say: `unknown command "rnu" for "arbor"; did you mean run?`},
		"unknown flag":           {args: []string{"run", desk, "--sesion", "x", "hi"}, say: "unknown flag: --sesion; did you mean --session?"},
		"far from any flag":      {args: []string{"run", desk, "--zzzzzzz", "hi"}, say: "unknown flag: --zzzzzzz; see arbor run --help"},
		"flag without its value": {args: []string{"run", desk, "hi", "--session"}, say: "flag needs an argument: --session"},
		"unknown subcommand":     {args: []string{"sessions", "shwo", "x", "--json"}, say: `unknown command "shwo" for "arbor sessions"; did you mean show?`},
		"one of two commands":    {args: []string{"serv", "x"}, say: `unknown command "serv" for "arbor"; did you mean serve?`},
		"command one level up":   {args: []string{"export", "x"}, say: `unknown command "export" for "arbor"; did you mean arbor sessions export?`},
		"unknown help":           {args: []string{"help", "rnu"}, say: `unknown command "rnu" for "arbor"; did you mean run?`},
		"unknown help below":     {args: []string{"help", "sessions", "lss"}, say: `unknown command "lss" for "arbor sessions"; did you mean ls?`},
		"unknown, far from any":  {args: []string{"help", "zzz"}, say: `unknown command "zzz" for "arbor"; see arbor --help`},
		"version of others":      {args: []string{"version"}, say: `unknown command "version" for "arbor"; did you mean arbor --version?`},
		"origin of no page":      {args: []string{"serve", desk, "--addr", "127.0.0.1:0", "--db", ":memory:", "--allow-origin", "app.example.com"}, say: "--allow-origin: origin 1 is not one that a browser sends: write SCHEME://HOST"},
		"message without run":    {args: []string{desk, "hi there"}, say: `unknown command "testdata/desk" for "arbor"; did you mean arbor run testdata/desk 'hi there'?`},
		"tree without command":   {args: []string{desk}, say: `did you mean arbor chat testdata/desk?`},
		"message alone":          {args: []string{"hi there"}, say: `did you mean arbor run PATH 'hi there'?`},
		"empty id":               {args: []string{"run", desk, "hi", "--session", ""}, say: "--session is empty: give ID, or leave the flag out; see arbor run --help"},
		"empty name":             {args: []string{"run", desk, "hi", "-m", ""}, say: "--model is empty: give NAME"},
		"empty database":         {args: []string{"sessions", "ls", "--db="}, say: "--db is empty: give DB"},
		"empty folder":           {args: []string{"run", desk, "hi", "--files", ""}, say: "--files : it is empty: give the path of a folder"},
		"empty list":             {args: []string{"serve", desk, "--approver", ""}, say: "--approver is empty: give APPROVERS"},
		"empty part of a list":   {args: []string{"serve", desk, "--allow-origin", "https://a.example,"}, say: "--allow-origin is empty: give ORIGIN"},
		"empty one of several":   {args: []string{"eval", desk, "c", "--tag", "a", "--tag", ""}, say: "--tag is empty: give TAG"},
		"unknown shell":          {args: []string{"completion", "csh"}, say: `unknown command "csh" for "arbor completion"`},
		"no number":              {args: []string{"eval", desk, "c", "--repeat", "x"}, say: "--repeat x: give a whole number; see arbor eval --help"},
		"no share":               {args: []string{"eval", desk, "c", "--threshold", "x"}, say: "--threshold x: give a number, such as 0.5"},
		"no time":                {args: []string{"run", desk, "hi", "--timeout-first", "x"}, say: "--timeout-first x: give a time with its unit, such as 30s or 10m"},
		"no size":                {args: []string{"serve", desk, "--max-body", "x"}, say: "--max-body x: give a number of bytes such as 500KiB"},
		"no path":                {args: []string{"run"}, say: "PATH is missing"},
		"no folder":              {args: []string{"run", "no/such/folder", "hi"}, say: "no/such/folder: there is no such file or folder"},
		"two messages":           {args: []string{"run", desk, "hi", "there"}, say: `1 argument too many: "there"; put a message of several words in quotes`},
		"empty message":          {args: []string{"run", desk, ""}, say: "the message is empty: give it as an argument or on standard input"},
		"blank message":          {args: []string{"run", desk, "-"}, stdin: " \n\t\n", say: "the message is empty"},
		"empty standard input":   {args: []string{"run", desk}, say: "the message is empty"},
		"no UTF-8":               {args: []string{"run", desk, "a\xffb"}, say: "the message is not valid UTF-8"},
		"no UTF-8 on stdin":      {args: []string{"run", desk}, stdin: "a\xffb", say: "the message is not valid UTF-8"},
		"bad session":            {args: []string{"run", desk, "hi", "--session", "a\nb"}, say: "without control characters"},
		"other database":         {args: []string{"run", desk, "hi", "--db", "mysql://ann:sk-secret@h/db"}, say: "--db mysql://…: give a SQLite file or a postgres:// address"},
		"bad address":            {args: []string{"run", desk, "hi", "--db", "postgres://ann:sk-secret%zz@h/db"}, say: "the sessions' database postgres://… cannot be used"},
		"bad setting":            {args: []string{"run", desk, "hi", "--db", "postgres://ann:sk-secret@h/db?pool_max_conns=x"}, say: "the sessions' database postgres://ann@h/db?pool_max_conns=x cannot be used"},
		"database is a folder":   {args: []string{"run", desk, "hi", "--db", "testdata"}, say: "cannot be opened"},
		"database is no such":    {args: []string{"run", desk, "hi", "--db", "testdata/desk/billing.md"}, say: "billing.md"},
		"tree format":            {args: []string{"tree", desk, "--format", "png"}, say: "--format png: choose text, mermaid, dot or json"},
		"export format":          {args: []string{"sessions", "export", "x", "--format", "png"}, say: "--format png: choose jsonl, md, html, openai or case"},
		"resume what":            {args: []string{"resume", desk}, say: "--session is missing"},
		"resume nothing":         {args: []string{"resume", desk, "--session", "nobody"}, say: `there is no session "nobody"`},
		"show what":              {args: []string{"sessions", "show"}, say: "ID is missing"},
		"show nothing":           {args: []string{"sessions", "show", "x", "--db", "no/such.db"}, say: "no/such.db: there is no such sessions' file"},
		"key without a model":    {args: []string{"run", desk, "hi"}, env: []string{"OPENAI_API_KEY=sk-secret-0123456789"}, say: "set OPENAI_MODEL"},
		"url without a model":    {args: []string{"run", desk, "hi"}, env: []string{"OPENAI_BASE_URL=http://127.0.0.1:1"}, say: "set OPENAI_MODEL"},
		"model without endpoint": {args: []string{"run", desk, "hi"}, env: []string{"OPENAI_MODEL=m"}, say: "OPENAI_BASE_URL"},
		"--model alone":          {args: []string{"run", desk, "hi", "--model", "m"}, say: "--model is given, but there is no endpoint"},
		"url of another kind":    {args: []string{"run", desk, "hi"}, env: []string{"OPENAI_BASE_URL=ftp://x", "OPENAI_MODEL=m"}, say: "http://"},
		"files in a file":        {args: []string{"run", desk, "hi", "--files", desk + "/billing.md"}, say: "/billing.md: this is a file: give the path of a folder"},
		"endless prices":         {args: []string{"run", desk, "hi", "--prices", "/dev/zero"}, say: "--prices: /dev/zero is larger than 64MiB, which is the most that is read"},
		"endless secret":         {args: []string{"serve", desk, "--addr", "127.0.0.1:0", "--token-file", "/dev/zero"}, say: "--token-file: /dev/zero is larger than 64KiB"},
		"users without --by":     {args: []string{"chat", desk, "--users", "u.yaml"}, say: "--users needs --by"},
		"users of no decider":    {args: []string{"resume", desk, "--session", "s", "--users", "u.yaml"}, say: "--users needs --by"},
		"broken tree":            {args: []string{"run", "testdata/broken", "hi"}, say: "problems in the files"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := invocation{env: tt.env, stdin: tt.stdin}.run(t, tt.args...).exits(t, cli.StatusUsage)
			require.Contains(t, got.err, tt.say)
			require.Empty(t, got.out)
			require.True(t, strings.HasPrefix(got.err, "arbor: "), got.err)
			require.NotContains(t, got.err, "sk-secret")
			if name != "broken tree" {
				require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
			}
		})
	}
}

// A folder with the name of a command is a tree, if what follows is no command.
func TestFolderNamedAsACommand(t *testing.T) {
	t.Parallel()
	cmd := invocation{}.command(t, "desk", "hi")
	cmd.Dir = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(cmd.Dir, "desk"), 0o700))
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, "arbor: unknown command \"hi\" for \"arbor desk\"; did you mean arbor run desk hi?\n", string(out))
	require.Contains(t, invocation{program: "embedded"}.run(t, "hi").err, "did you mean helpdesk run hi?")
}

func TestHelp(t *testing.T) {
	t.Parallel()
	got := invocation{}.run(t).exits(t, cli.StatusUsage)
	require.Empty(t, got.out)
	require.Contains(t, got.err, "Exit status:")
	got = invocation{}.run(t, "--help").exits(t, 0)
	require.Empty(t, got.err)
	for _, word := range []string{"OPENAI_BASE_URL", "arbor/arbor.db", "~/.local/state", "130", "chat", "lint"} {
		require.Contains(t, got.out, word)
	}
	require.Equal(t, got.out, invocation{}.run(t, "help").out)
	require.Contains(t, invocation{}.run(t, "help", "sessions", "ls").out, "arbor sessions ls [flags]")
	require.Equal(t, 0, invocation{}.run(t, "--version").status)
}

// Each command has a manual page with its flags and examples.
func TestManualPages(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man")
	require.Equal(t, outcome{}, invocation{}.run(t, "man", dir))
	for page, has := range map[string]string{"arbor": "OPENAI_BASE_URL", "arbor-run": `store sessions in \fBDB\fR`, "arbor-sessions-fork": "arbor sessions fork s1 --at 7"} {
		text := must.Get(os.ReadFile(filepath.Join(dir, page+".1")))
		require.Contains(t, string(text), has)
	}
}

// Without an endpoint the offline model answers, and standard error says so;
// the next process goes on where the conversation stands.
func TestOfflineAcrossProcesses(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	got := invocation{home: home}.run(t, "run", desk, "an invoice shows two charges", "--session", "s1").exits(t, 0)
	require.Equal(t, 1, strings.Count(got.err, "\n"), got.err)
	require.Contains(t, got.err, "no model is used")
	require.Contains(t, got.err, "OPENAI_MODEL")
	require.Contains(t, got.out, "support → billing (")
	require.Contains(t, got.out, "\nbilling: ")

	got = invocation{home: home}.run(t, "run", desk, "hello again", "--session", "s1").exits(t, 0)
	require.True(t, strings.HasPrefix(got.out, "billing: "), got.out)

	info := must.Get(os.Stat(filepath.Join(home, ".local", "state", "arbor", "arbor.db")))
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestStateDirectory(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	got := invocation{env: []string{"XDG_STATE_HOME=" + state}}.run(t, "run", desk, "hello").exits(t, 0)
	require.FileExists(t, filepath.Join(state, "arbor", "arbor.db"))
	require.Regexp(t, `session (s-[0-9a-f]{10}); to continue: arbor run testdata/desk --session s-[0-9a-f]{10} "…"`, got.err)

	got = invocation{}.run(t, "run", desk, "hello", "--db", ":memory:").exits(t, 0)
	require.NotContains(t, got.err, "to continue", "nothing is stored, so there is nothing to continue")
}

// With --json, standard output holds events and nothing else, as they are.
func TestJSON(t *testing.T) {
	t.Parallel()
	words := "a <b> & \"c\" \u2028 \x01 שלום"
	got := invocation{env: serve(t, answers(
		scripted.Reply(scripted.Text("looking "), scripted.Call("transfer_to_agent", `{"agent_name":"tech","reason":"<x>"}`)),
		scripted.Reply(scripted.Think("hm"), scripted.Text("x ", "< y"))))}.run(t, "run", desk, words, "--json")
	require.Equal(t, 0, got.status, got.err)
	require.Contains(t, got.err, "to continue")
	require.Contains(t, got.out, `"reason":"<x>"`)
	var types []string
	lines := bufio.NewScanner(strings.NewReader(got.out))
	for lines.Scan() {
		e := must.JSON[event.Event](lines.Bytes())
		back := must.Get(e.MarshalJSON())
		require.Equal(t, lines.Text(), string(back))
		types = append(types, e.Type())
		if u, ok := e.Data.(*event.User); ok {
			require.Equal(t, words, u.Content.Text)
		}
	}
	require.Equal(t, "user harness_start text tool_call usage tool_result transfer harness_end harness_start reasoning text usage harness_end", strings.Join(types, " "))
}

func TestJSONOfErrors(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"run", desk, "--json", ""}, {"run", "none", "--json", "hi"}, {"run", "testdata/broken", "--json", "hi"}} {
		got := invocation{}.run(t, args...).exits(t, cli.StatusUsage)
		require.Empty(t, got.out)
		require.NotEmpty(t, got.err)
	}
}

// What the user says reaches the model and the log word for word, however it
// comes in.
func TestMessages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcde ", 120<<10/16)
	for name, tt := range map[string]struct {
		args        []string
		stdin, want string
	}{
		"argument":        {args: []string{"{{.Name}} ${HOME} %s שלום \x1b[1m"}, stdin: "not this", want: "{{.Name}} ${HOME} %s שלום \x1b[1m"},
		"dashes":          {args: []string{"--", "--json"}, want: "--json"},
		"standard input":  {stdin: "two\nlines\n", want: "two\nlines"},
		"dash":            {args: []string{"-"}, stdin: "from \x02 a pipe\r\n\n", want: "from \x02 a pipe\r\n"},
		"120 KB argument": {args: []string{long}, want: long},
		"120 KB of stdin": {stdin: long, want: long},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := answers(scripted.Reply(scripted.Text("ok")))
			got := invocation{env: serve(t, script), stdin: tt.stdin}.run(t, append([]string{"run", desk, "--db", ":memory:"}, tt.args...)...).exits(t, 0)
			require.Equal(t, "support: ok\n", got.out)
			require.NoError(t, script.Done())
			msgs := script.Requests("model")[0].Messages
			require.Equal(t, tt.want, msgs[len(msgs)-1].Text)
		})
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		"text": `support  Finds the right specialist
├─ billing  Charges, invoices and refunds
│      may also transfer to: support
└─ tech  Errors, outages and slow connections
       may also transfer to: support
`,
		"mermaid": `flowchart TD
    n0["support"]
    n1["billing"]
    n2["tech"]
    n0 --> n1
    n0 --> n2
    n1 -.-> n0
    n2 -.-> n0
`,
		"dot": `digraph "agents" {
  compound=true;
  node [shape=box];
  n0 [label="support", tooltip="Finds the right specialist"];
  n1 [label="billing", tooltip="Charges, invoices and refunds"];
  n2 [label="tech", tooltip="Errors, outages and slow connections"];
  n0 -> n1;
  n0 -> n2;
  n1 -> n0 [style=dashed, constraint=false];
  n2 -> n0 [style=dashed, constraint=false];
}
`,
	} {
		got := invocation{}.run(t, "tree", desk, "--format", format).exits(t, 0)
		require.Empty(t, got.err, "no model is needed for a drawing")
		require.Equal(t, want, got.out)
	}
	got := invocation{}.run(t, "tree", desk, "--format", "json")
	require.JSONEq(t, `{"name":"support","path":"support","description":"Finds the right specialist","targets":["billing","tech"],"subAgents":[
		{"name":"billing","path":"support/billing","description":"Charges, invoices and refunds","targets":["support"]},
		{"name":"tech","path":"support/tech","description":"Errors, outages and slow connections","targets":["support"]}]}`, got.out)
}

func TestLint(t *testing.T) {
	t.Parallel()
	got := invocation{}.run(t, "lint", desk)
	require.Equal(t, outcome{0, "ok: 3 agents\n", ""}, got)

	got = invocation{}.run(t, "lint", "testdata/broken").exits(t, cli.StatusUsage)
	require.Regexp(t, `(?m)^testdata/broken/root\.md:3: .*colour`, got.out)
	require.Regexp(t, `(?m)^testdata/broken/root\.md:4: .*ghost`, got.out)
	require.Regexp(t, `(?m)^testdata/broken/child\.md:4: .*no_such_tool`, got.out)
	require.Equal(t, "arbor: 3 problems\n", got.err)

	got = invocation{program: "twice"}.run(t, "lint").exits(t, cli.StatusUsage)
	require.Equal(t, 2, strings.Count(got.out, "\n"), got.out)
	require.Contains(t, got.out, `same/same: the name "same" is taken`)
	require.Contains(t, got.out, `same/user: agent name "user" is reserved`)
	got = invocation{program: "twice"}.run(t, "run", "hi").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "2 problems in the tree of agents\n")
}

// A program with a tree of its own takes no PATH.
func TestOwnTree(t *testing.T) {
	t.Parallel()
	got := invocation{program: "embedded"}.run(t, "run", "my invoice", "--db", ":memory:").exits(t, 0)
	require.Contains(t, got.out, "support → billing")
	require.True(t, strings.HasPrefix(got.err, "helpdesk: no model is used"), got.err)

	env := serve(t, answers(scripted.Reply(scripted.Text("hello"))))
	got = invocation{program: "func", env: env}.run(t, "run", "hi", "--db", ":memory:")
	require.Equal(t, outcome{0, "solo: hello\n", ""}, got)
	require.Equal(t, outcome{0, "solo\n", ""}, invocation{program: "func"}.run(t, "tree"))

	got = invocation{program: "rude"}.run(t, "run", "hi", "--db", ":memory:", "--model", "m").exits(t, cli.StatusUsage, "its models are its own")
}

// A name in the files will do where OPENAI_MODEL is not set, and --model counts
// more than both.
func TestModelNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "solo.md"), []byte("---\nname: solo\nmodel: named\n---\nYou are alone.\n"), 0o600))
	script := scripted.New().Add("named", scripted.Reply(scripted.Text("from the file"))).Add("given", scripted.Reply(scripted.Text("from the flag")))
	env := serve(t, script)[:1]
	got := invocation{env: env}.run(t, "run", dir, "hi", "--db", ":memory:")
	require.Equal(t, outcome{0, "solo: from the file\n", ""}, got)
	files := t.TempDir()
	got = invocation{home: t.TempDir(), env: env}.run(t, "run", dir, "hi", "--model", "given", "--files", files, "--desk")
	require.Equal(t, "solo: from the flag\n", got.out)
	require.Regexp(t, `to continue: arbor run \S+ --session s-\w+ "…" --model given --files `+files+" --desk\n$", got.err, "the same options")
	got = invocation{}.run(t, "run", dir, "hi", "--db", ":memory:")
	require.Contains(t, got.err, "no model is used", "a name is no endpoint")
}
