package runner_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llm/scripted"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/tools"
	"github.com/agentarbor/arbor/view"
)

type savedFile struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Type string `json:"type,omitempty"`
}

// fileTools are save, which makes a file, and read, which tells what is in one.
func fileTools(t *testing.T) llmagent.Option {
	save := must.Get(tools.Func("save", "Saves a file.", func(c tools.Context, in savedFile) (string, error) {
		c.Set("saved", in.Name)
		f, err := c.SaveFile(in.Name, in.Type, []byte(in.Text))
		if err != nil {
			return "", err
		}
		data, err := c.ReadFile(in.Name)
		if err != nil || string(data) != in.Text || f.ToolCallID != c.CallID() {
			return "", errors.New("cannot read what it has saved")
		}
		return "saved", nil
	}))
	read := must.Get(tools.Func("read", "Reads a file.", func(c tools.Context, in struct {
		Name string `json:"name"`
	}) (string, error) {
		data, err := c.ReadFile(in.Name)
		return string(data), err
	}))
	return llmagent.WithTools(save, read)
}

func ofType(events []*event.Event, typ string) (found []*event.Event) {
	for _, e := range events {
		if e.Type() == typ {
			found = append(found, e)
		}
	}
	return found
}

func results(events []*event.Event) (texts []string) {
	for _, e := range ofType(events, event.TypeToolResult) {
		texts = append(texts, event.OutputText(e.Data.(*event.ToolResult).Output))
	}
	return texts
}

// playing is a model that plays answers and keeps the requests.
type playing struct {
	answers  []scripted.Answer
	requests []*llm.Request
}

func (p *playing) Name() string { return "m" }
func (p *playing) Generate(ctx context.Context, req *llm.Request) iter.Seq2[llm.Chunk, error] {
	p.requests = append(p.requests, req)
	a := scripted.Reply(scripted.Text("ok"))
	if len(p.answers) > 0 {
		a, p.answers = p.answers[0], p.answers[1:]
	}
	return scripted.Always("m", a).Generate(ctx, req)
}

// TestToolsMakeFiles: the event of a file stands in one write with the state and the result
// of the call that made it, models read one line, and whoever reads the file gets its bytes.
func TestToolsMakeFiles(t *testing.T) {
	m := &playing{answers: []scripted.Answer{
		scripted.Reply(scripted.Call("save", `{"name":"a.txt","text":"first"}`)),
		scripted.Reply(scripted.Call("save", `{"name":"b.bin","text":"","type":"application/x-thing; a=b"}`)),
		scripted.Reply(scripted.Call("save", `{"name":"a.txt","text":"second"}`)),
		scripted.Reply(scripted.Call("transfer_to_agent", `{"agent_name":"other"}`))}}
	o := &playing{answers: []scripted.Answer{
		scripted.Reply(scripted.Call("read", `{"name":"a.txt"}`), scripted.Call("read", `{"name":"`+session.Digest([]byte("first"))+`"}`), scripted.Call("read", `{"name":"c"}`))}}
	other := must.Get(llmagent.New("other", "Reads.", o, fileTools(t), llmagent.WithHistory(view.Full().WithFiles())))
	maker := must.Get(llmagent.New("maker", "Makes.", m, fileTools(t), llmagent.WithSubAgents(other)))
	r := newRun(t, maker)
	events := run(t, r, session.ID("s"), "Go")

	made := ofType(events, event.TypeFile)
	require.Len(t, made, 3)
	require.Equal(t, &event.File{Name: "a.txt", MediaType: "text/plain; charset=utf-8", Size: 5, Digest: session.Digest([]byte("first")), ToolCallID: made[0].Data.(*event.File).ToolCallID}, made[0].Data)
	for _, e := range made {
		i := e.Seq - 1
		require.Equal(t, event.TypeState, events[i-1].Type())
		require.Equal(t, event.TypeToolResult, events[i+1].Type())
		require.Equal(t, e.Data.(*event.File).ToolCallID, events[i+1].ID)
		require.Equal(t, events[i-1].Time, events[i+1].Time, "one write")
	}
	require.Equal(t, "saved\n[file a.txt, text/plain; charset=utf-8, 5 bytes]", m.requests[1].Messages[2].Parts[0].(llm.ToolResult).Output)
	require.Equal(t, "saved\n[file b.bin, application/x-thing; a=b, 0 bytes]", m.requests[2].Messages[4].Parts[0].(llm.ToolResult).Output)

	require.ElementsMatch(t, []string{"second", "first", `"c": no such file`}, results(events)[4:])
	require.Contains(t, o.requests[0].Messages, llm.UserParts(llm.TextPart{Text: "[maker] made the file a.txt, text/plain; charset=utf-8, 6 bytes"},
		llm.Media{Kind: llm.MediaFile, MediaType: "text/plain; charset=utf-8", Name: "a.txt", Data: []byte("second")}))
}

// TestRefusedFiles: what a model can put right comes back to it as the result of the call,
// and no event names the file.
func TestRefusedFiles(t *testing.T) {
	m := &playing{answers: []scripted.Answer{scripted.Reply(scripted.Call("save", `{"name":"../a","text":""}`)),
		scripted.Reply(scripted.Call("save", `{"name":"a","text":"","type":"x y"}`)), scripted.Reply(scripted.Call("save", `{"name":"a","text":"12345678901"}`)),
		scripted.Reply(scripted.Call("save", `{"name":"a","text":"1234567890"}`))}}
	a := must.Get(llmagent.New("a", "", m, fileTools(t)))
	events := finish(t, newRun(t, a, runner.WithFileLimit(10)).Run(t.Context(), session.ID("s"), llm.UserText("Go")))
	require.Len(t, ofType(events, event.TypeFile), 1)
	for i, want := range []string{`bad input: the file name "../a" is invalid`, `the file a has the invalid media type "x y"`, "the file is too large: a has 11 bytes, and at most 10 are kept", "saved"} {
		require.Contains(t, results(events)[i], want)
	}
	_, err := runner.New(a, session.NewMemory(), runner.WithFileLimit(0))
	require.ErrorContains(t, err, "the limit of WithFileLimit is not positive")
}

// noBlobs is a store whose disk fails for bytes.
type noBlobs struct{ session.Store }

var errBlobs = errors.New("postgres://secret@host: no space left")

func (noBlobs) PutBlob(context.Context, session.Key, session.Lease, []byte) (string, error) {
	return "", errBlobs
}

// TestNoFileWithoutBytes: if bytes cannot be stored, nothing names them, and the model
// reads no more of the error than that.
func TestNoFileWithoutBytes(t *testing.T) {
	m := &playing{answers: []scripted.Answer{scripted.Reply(scripted.Call("save", `{"name":"a","text":"x"}`))}}
	a := must.Get(llmagent.New("a", "", m, fileTools(t)))
	events := finish(t, newRunner(t, a, noBlobs{sessiontest.Memory(t)}).Run(t.Context(), session.ID("s"), llm.UserText("Go")))
	require.Empty(t, ofType(events, event.TypeFile))
	require.Equal(t, "the file a could not be stored", results(events)[0])
}

// TestUsersFiles: a tool reads what the user has sent under a name, also in a later turn
// and another process; a policy puts lines in the place of images.
func TestUsersFiles(t *testing.T) {
	store := sessiontest.Memory(t)
	m := &playing{}
	a := must.Get(llmagent.New("a", "", m, fileTools(t), llmagent.WithHistory(view.Full().WithoutMedia())))
	msg := llm.UserParts(llm.TextPart{Text: "Look"}, llm.Media{Kind: llm.MediaImage, MediaType: "image/png", Data: []byte("pixels"), Name: "shot.png"},
		llm.Media{Kind: llm.MediaFile, MediaType: "text/plain", URL: "https://example.test/x", Name: "x"})
	finish(t, newRunner(t, a, store).Run(t.Context(), session.ID("s"), msg))
	require.Equal(t, []llm.Part{llm.TextPart{Text: "Look"}, llm.TextPart{Text: "[image shot.png, image/png, 6 bytes]"}, llm.TextPart{Text: "[file x, at an address]"}},
		m.requests[0].Messages[0].Parts)
	m.answers = []scripted.Answer{scripted.Reply(scripted.Call("read", `{"name":"shot.png"}`), scripted.Call("read", `{"name":"x"}`), scripted.Call("read", `{"name":""}`))}
	events := run(t, newRunner(t, a, store), session.ID("s"), "Read it")
	require.ElementsMatch(t, []string{"pixels", `"x" was sent as a link, and not as bytes: no such file`, `"": no such file`}, results(events))
}

// TestFilesOfAgents: an agent of one's own saves a file before it yields the event; what it
// makes up is refused.
func TestFilesOfAgents(t *testing.T) {
	file := func(save bool, change func(*event.File)) ([]*event.Event, error) {
		a := must.Get(agent.New("a", "", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[*event.Event, error] {
			return func(yield func(*event.Event, error) bool) {
				f := &event.File{Name: "a", MediaType: "text/plain", Size: 1, Digest: session.Digest([]byte("x"))}
				if save {
					var err error
					if f, err = inv.Runtime().SaveFile(ctx, "a", "text/plain", []byte("x")); err != nil {
						yield(nil, err)
						return
					}
				}
				change(f)
				yield(&event.Event{Data: f}, nil)
			}
		}))
		events, err := collect(newRun(t, a).Run(t.Context(), session.ID("s"), llm.UserText("Go")))
		return ofType(events, event.TypeFile), err
	}
	made := must.Get(file(true, func(*event.File) {}))
	require.Len(t, made, 1)
	for want, change := range map[string]func(*event.File){
		"invalid file event":             func(f *event.File) { f.Digest = "sha256:" + strings.Repeat("z", 64) },
		"the file name":                  func(f *event.File) { f.Name = "/" },
		"with 2 bytes, and it has 1":     func(f *event.File) { f.Size = 2 },
		"no call with this id waits":     func(f *event.File) { f.ToolCallID = "c1" },
		"whose bytes are not stored":     func(f *event.File) { f.Digest = session.Digest([]byte("y")) },
		"needs a normalized media type":  func(f *event.File) { f.MediaType = "TEXT/plain" },
		"the invalid media type \"\\n\"": func(f *event.File) { f.MediaType = "\n" },
	} {
		made, err := file(true, change)
		require.ErrorContains(t, err, want)
		require.Empty(t, made)
	}
	made, err := file(false, func(*event.File) {})
	require.ErrorIs(t, err, agent.ErrNoFile)
	require.Empty(t, made)
}
