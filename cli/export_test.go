package cli_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	goopenai "github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/cli"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm/scripted"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares a text with a file below testdata.
func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want := must.Get(os.ReadFile(path))
	require.Equal(t, string(want), got)
}

func TestExportPage(t *testing.T) {
	t.Parallel()
	s := tell(t)
	page := s.sessions(t, "export", "story", "--format", "html").out
	golden(t, "story.html", page)

	// Nothing that somebody said is markup, nothing is loaded, nothing drives a terminal.
	for _, tag := range regexp.MustCompile(`<([a-z0-9!/]+)`).FindAllStringSubmatch(page, -1) {
		require.Contains(t, []string{"!doctype", "html", "head", "meta", "title", "style", "body", "h1", "p", "article", "div", "details", "summary", "span", "pre"},
			strings.TrimPrefix(tag[1], "/"))
	}
	require.NotRegexp(t, `(?i)\b(src|href|srcset|onclick|onload)=|url\(|@import`, page)
	require.NotContains(t, page, "\x1b")
	require.Contains(t, page, "prefers-color-scheme: dark")
	for _, name := range []string{"html", "head", "body", "article", "div", "details", "pre", "p", "span", "summary"} {
		require.Equal(t, len(regexp.MustCompile(`<`+name+`[ >]`).FindAllString(page, -1)), strings.Count(page, "</"+name+">"), name)
	}
	require.Regexp(t, `(?s)<summary>research\(.*?<div class="inner">.*?researcher.*?A retry &lt;/div&gt;`, page, "the sub-agent stands inside of its call")
	require.Contains(t, page, `<p class="line">support → billing (a &lt;double&gt; charge)</p>`)

	s.sessions(t, "fork", "story", "--at", "12", "--to", "fork")
	require.Equal(t, 0, s.run(t, "resume", desk, "--session", "fork", "--db", s.db).status)
	require.Regexp(t, `(?s)One &lt;moment&gt;.*<p class="line">the fork continues from position 12</p>.*lookup returned`, s.sessions(t, "export", "fork", "--format", "html").out)

	page = s.sessions(t, "export", "story", "--format", "html", "--at", "6").out
	require.Contains(t, page, "not finished")
	require.NotContains(t, page, "billing")
}

// Lines between the messages stand where they happened, also of runs that said
// nothing.
func TestExportPageOfTransfers(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	env := serve(t, answers(
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"nobody"}`)),
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"tech","reason":"first"}`)),
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"support","reason":"second"}`)),
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"billing","reason":"third"}`)),
		scripted.Reply(scripted.Text("Here I am."))))
	invocation{home: home, env: env}.run(t, "run", desk, "hi", "--session", "s").exits(t, 0)
	page := invocation{home: home}.run(t, "sessions", "export", "s", "--format", "html").out
	require.Regexp(t, `(?s)>hi<.*>support → nobody rejected<.*>support → tech \(first\)<.*>tech → support \(second\)<.*>support → billing \(third\)<.*>Here I am\.<`, page)
	require.NotContains(t, page, "transfer_to_agent")
	require.NotContains(t, page, ">tech</div>", "who only handed over said nothing")
}

// The messages are what the protocol's types can hold, no more and no less.
func TestExportMessages(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for at := 1; at <= 27; at++ {
		out := s.sessions(t, "export", "story", "--format", "openai", "--at", strconv.Itoa(at)).out
		d := json.NewDecoder(strings.NewReader(out))
		d.DisallowUnknownFields()
		var messages []goopenai.ChatCompletionMessage
		require.NoError(t, d.Decode(&messages), out)
		require.NotEmpty(t, messages)
		back := must.Get(json.Marshal(messages))
		require.JSONEq(t, strings.ReplaceAll(out, `"content":null,`, ""), string(back))
		open := map[string]bool{}
		for _, m := range messages {
			if m.Role != "tool" {
				require.Empty(t, open, "every call is answered before somebody speaks: %s", out)
			}
			for _, c := range m.ToolCalls {
				require.True(t, json.Valid([]byte(c.Function.Arguments)))
				open[c.ID] = true
			}
			if m.Role == "tool" {
				require.True(t, open[m.ToolCallID])
				delete(open, m.ToolCallID)
			}
		}
		require.Empty(t, open)
	}
	out := s.sessions(t, "export", "story", "--format", "openai").out
	golden(t, "story.json", out)
	require.NotContains(t, out, "Two & two", "reasoning is nobody else's")
}

// What was exported can be imported, and a run goes on with it.
func TestImportGoesOn(t *testing.T) {
	t.Parallel()
	s := tell(t)
	exported := s.sessions(t, "export", "story", "--format", "openai").out
	file := filepath.Join(t.TempDir(), "messages.json")
	require.NoError(t, os.WriteFile(file, []byte(exported), 0o600))
	got := s.sessions(t, "import", file, "--agent", "support", "--to", "copy")
	require.Equal(t, "copy\n", got.out)
	require.Equal(t, "arbor: session copy has 8 messages; to continue: arbor resume PATH --session copy --db "+s.db+"\n", got.err)
	require.Equal(t, carried(t, exported), canonical(t, s.sessions(t, "export", "copy", "--format", "openai").out))

	run := s.run(t, "resume", desk, "--session", "copy", "--db", s.db).exits(t, 0)
	require.NotEmpty(t, run.out)
	run = s.run(t, "run", desk, "my invoice", "--session", "copy", "--db", s.db).exits(t, 0)
	require.Contains(t, run.out, "support → billing")

	// The model reads all of it.
	s.stdin = exported
	s.sessions(t, "import", "-", "--agent", "support", "--to", "read")
	script := answers(scripted.Reply(scripted.Text("I see.")))
	in := s.invocation
	in.env = serve(t, script)
	run = in.run(t, "resume", desk, "--session", "read", "--db", s.db)
	require.Equal(t, outcome{0, "support: I see.\n", ""}, run)
	sent := script.Requests("model")[0].Messages
	require.Len(t, sent, 6)
	require.Equal(t, "I was charged twice", sent[0].Text)
	require.Equal(t, "One <moment>.", sent[1].Text)
}

// canonical returns messages without the ids of calls, which must be new in a
// session.
func canonical(t *testing.T, text string) string {
	t.Helper()
	require.True(t, json.Valid([]byte(text)), text)
	return regexp.MustCompile(`"(id|tool_call_id)":"[^"]*"`).ReplaceAllString(text, `"$1":""`)
}

// carried returns what an import keeps of messages: all but the handing over.
func carried(t *testing.T, text string) string {
	t.Helper()
	transfer := regexp.MustCompile(`\{"role":"assistant","content":null,"tool_calls":\[[^]]*"name":"transfer_to_agent"[^]]*\]\},\n\{"role":"tool".*"\},?\n`)
	return regexp.MustCompile(`,\n\]`).ReplaceAllString(transfer.ReplaceAllString(canonical(t, text), ""), "\n]")
}

func TestImportForms(t *testing.T) {
	t.Parallel()
	array := `[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi","name":"ann"},{"role":"assistant","content":[{"type":"text","text":"Hello."}],"refusal":null,"annotations":[]}]`
	list := must.JSON[[]json.RawMessage](array)
	lines := string(bytes.Join([][]byte{list[0], list[1], list[2]}, []byte("\n")))
	for name, in := range map[string]string{"array": array, "lines": lines, "request": `{"model":"m","messages":` + array + `}`} {
		db := filepath.Join(t.TempDir(), "new.db")
		got := invocation{stdin: in}.run(t, "sessions", "import", "-", "--agent", "root", "--to", "s", "--db", db)
		require.Equal(t, 0, got.status, got.err)
		require.Contains(t, got.err, "session s has 2 messages; 1 system message left out, because agents have instructions of their own; to continue: arbor run", name)
		require.Equal(t, "user: Hi\nroot: Hello.\n", invocation{}.run(t, "sessions", "show", "s", "--db", db).out)
		info := must.Get(os.Stat(db))
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}

	// Images and files come and go as they are. Calls get new ids.
	db := filepath.Join(t.TempDir(), "new.db")
	media := `[
{"role":"user","content":[{"type":"text","text":"Look"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AAE="}},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}},{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAE="}}]},
{"role":"assistant","content":null,"tool_calls":[{"id":"k","type":"function","function":{"name":"f","arguments":"{}"}}]},
{"role":"tool","content":"1","tool_call_id":"k"}
]
`
	got := invocation{stdin: media}.run(t, "sessions", "import", "-", "--agent", "root", "--db", db).exits(t, 0)
	require.Regexp(t, `^s-[0-9a-f]{10}\n$`, got.out)
	require.Equal(t, canonical(t, media), canonical(t, invocation{}.run(t, "sessions", "export", strings.TrimSpace(got.out), "--format", "openai", "--db", db).out))
}

func TestBadImports(t *testing.T) {
	t.Parallel()
	s := tell(t)
	for in, say := range map[string]string{
		``:                                "there are no messages",
		`[]`:                              "there are no messages",
		`{"role":"system","content":"x"}`: "without 1 system message: there are no messages",
		`[{"role":"user","content":"x"}`:  "it is not JSON",
		`nonsense`:                        "it is not JSON, after byte",
		`[1]`:                             "message 1: it is not a chat message",
		`[{"content":"x"}]`:               `message 1: the role ""`,
		`[{"role":"user","content":"a"},{"role":"nurse","content":"x"}]`: `message 2: the role "nurse" is not one of`,
		`[{"role":"user"}]`:                                                                                          "arbor: standard input: message 1: the message is empty",
		`[{"role":"assistant","content":"x"}]`:                                                                       "must begin with a message of the user",
		`[{"role":"user","content":{"a":1}}]`:                                                                        "neither text nor a list of parts",
		`[{"role":"user","content":[{"type":"input_audio"}]}]`:                                                       "part 1 of its content: the audio is not in it: send data",
		`[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]`:                                       "the file is not in it",
		`[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png,x"}}]}]`:                  "not in base64",
		`[{"role":"user","content":"a"},{"role":"tool","content":"x","tool_call_id":"k"}]`:                           `no call "k" waits for a result`,
		`[{"role":"user","content":"a"},{"role":"assistant","function_call":{"name":"f","arguments":"{}"}}]`:         `"tool_calls" have replaced`,
		`[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"k","type":"custom"}]}]`:             `the unknown type "custom"`,
		`[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[{"id":"k","function":{"arguments":""}}]}]`: "the tool name of a call is",
	} {
		s.stdin = in
		got := s.try(t, "import", "-", "--agent", "root").exits(t, cli.StatusUsage, in)
		require.Contains(t, got.err, say, in)
		require.Empty(t, got.out)
	}
	s.stdin = `[{"role":"user","content":"a"}]`
	got := s.try(t, "import", "-", "--agent", "root", "--to", "story").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, `session "story" exists already: give another id with --to`)
	got = s.run(t, "sessions", "import", "-", "--agent", "root", "--db", ":memory:").exits(t, cli.StatusUsage)
	require.Contains(t, got.err, "stores nothing")
	require.Equal(t, 2, strings.Count(s.sessions(t, "ls").out, "\n"), "nothing was made")
}

func TestExportAt(t *testing.T) {
	t.Parallel()
	s := tell(t)
	lines := strings.Split(strings.TrimSpace(s.sessions(t, "export", "story", "--at", "9").out), "\n")
	require.Len(t, lines, 9)
	e := must.JSON[event.Event](lines[8])
	require.Equal(t, "c2", e.Scope)
	got := s.sessions(t, "export", "story", "--format", "md", "--at", "9").out
	require.Contains(t, got, "**support:** One <moment>.")
	require.NotContains(t, got, "billing")
}
