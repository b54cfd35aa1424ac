package a2aserver

import (
	"net/http/httptest"
	"strings"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/a2a"
	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/llmagent"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/session"
	"github.com/agentarbor/arbor/session/sessiontest"
	"github.com/agentarbor/arbor/view"
)

// copier makes a file of each that it is sent.
func copier(t *testing.T) agent.Agent {
	return must.Get(llmagent.Func("copier", "Copies files.", func(s *llmagent.Step) error {
		if s.Message() == "large" {
			_, err := s.SaveFile("large.bin", "", make([]byte, 2000))
			return err
		}
		for _, p := range s.Invocation().Message().Parts {
			m, ok := p.(llm.Media)
			if !ok {
				continue
			}
			data, err := s.ReadFile(m.Name)
			if err != nil {
				return err
			}
			if _, err := s.SaveFile("copy of "+m.Name, m.MediaType, append([]byte("copy: "), data...)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func filesOf(events []*event.Event) (files []*event.File) {
	for _, e := range events {
		if f, ok := e.Data.(*event.File); ok {
			files = append(files, f)
		}
	}
	return files
}

// TestFilesThroughPeers: what a user sends reaches an agent two servers away, and what that one makes comes
// back byte by byte into the sessions of all.
func TestFilesThroughPeers(t *testing.T) {
	stores := []session.Store{sessiontest.Memory(t), sessiontest.Memory(t), sessiontest.Memory(t)}
	root := copier(t)
	for _, store := range stores[:2] {
		srv := httptest.NewServer(newTestServer(t, root, store))
		t.Cleanup(srv.Close)
		root = must.Get(a2a.Remote("far", srv.URL))
	}
	for _, streams := range []bool{true, false} {
		var opts []runner.Option
		if streams {
			opts = append(opts, runner.WithStreaming())
		}
		r := must.Get(runner.New(root, stores[2], opts...))
		key := session.ID(map[bool]string{true: "s", false: "u"}[streams])
		turn := func(msg llm.Message) (events []*event.Event) {
			for e, err := range sessiontest.Turn(t, r.Run(t.Context(), key, msg)) {
				require.NoError(t, err)
				if !e.Partial {
					events = append(events, e)
				}
			}
			return events
		}
		for range 2 { // a later turn gets its own files, and not those of before again
			events := turn(llm.UserParts(llm.TextPart{Text: "Copy"}, llm.Media{Kind: llm.MediaFile, MediaType: "application/pdf", Name: "a.bin", Data: []byte("\x00\xff")}))
			files := filesOf(events)
			require.Len(t, files, 1)
			require.Equal(t, &event.File{Name: "copy of a.bin", MediaType: "application/pdf", Size: 8, Digest: session.Digest([]byte("copy: \x00\xff"))}, files[0])
			data := must.Get(stores[2].Blob(t.Context(), key, files[0].Digest))
			require.Equal(t, "copy: \x00\xff", string(data))
			require.Equal(t, "[file copy of a.bin, application/pdf, 8 bytes]", events[len(events)-2].Text(), "an answer has words")
		}
	}
}

// TestAgentsFilesGoToPeers: a policy sends what other agents of the tree have made.
func TestAgentsFilesGoToPeers(t *testing.T) {
	srv := httptest.NewServer(newTestServer(t, copier(t), sessiontest.Memory(t)))
	t.Cleanup(srv.Close)
	far := must.Get(a2a.Remote("far", srv.URL, a2a.WithHistory(view.Full().WithFiles())))
	front := must.Get(llmagent.Func("front", "", func(s *llmagent.Step) error {
		if _, err := s.SaveFile("made.txt", "text/plain", []byte("here")); err != nil {
			return err
		}
		return s.Transfer("far", "")
	}, llmagent.WithSubAgents(far)))
	store := sessiontest.Memory(t)
	r := must.Get(runner.New(front, store))
	var files []*event.File
	for e, err := range r.Run(t.Context(), session.ID("s"), llm.UserText("Go")) {
		require.NoError(t, err)
		files = append(files, filesOf([]*event.Event{e})...)
	}
	require.Len(t, files, 2)
	data := must.Get(store.Blob(t.Context(), session.ID("s"), files[1].Digest))
	require.Equal(t, "copy: here", string(data))
}

// TestFilesThatAreTooLarge: neither a server that is to send one nor a caller that is to
// keep one fails for it; both say so.
func TestFilesThatAreTooLarge(t *testing.T) {
	for _, c := range []struct {
		sends, keeps int64
		says         string
	}{
		{1000, 5000, "(the file large.bin, application/octet-stream, 2 kB, is too large to be sent)"},
		{5000, 1000, "(the file large.bin, application/octet-stream, 2 kB, is too large to be kept)"},
	} {
		srv := httptest.NewServer(newTestServer(t, copier(t), sessiontest.Memory(t), WithMaxFile(c.sends)))
		t.Cleanup(srv.Close)
		far := must.Get(a2a.Remote("far", srv.URL))
		r := must.Get(runner.New(far, sessiontest.Memory(t), runner.WithFileLimit(c.keeps)))
		var said []string
		for e, err := range r.Run(t.Context(), session.ID("s"), llm.UserText("large")) {
			require.NoError(t, err)
			require.NotEqual(t, event.TypeFile, e.Type())
			if e.Text() != "" {
				said = append(said, e.Text())
			}
		}
		require.Equal(t, []string{c.says}, said)
	}
}

// TestDirectAnswers: the option answers with a message, but only what has come to its end.
func TestDirectAnswers(t *testing.T) {
	a := must.Get(llmagent.Func("a", "", func(s *llmagent.Step) error {
		if strings.Contains(s.Message(), "fail") {
			return agent.ErrBadInput
		}
		if _, err := s.SaveFile("a.txt", "text/plain", []byte("x")); err != nil {
			return err
		}
		return s.Say("Done: " + s.Message())
	}))
	s := newTestServer(t, a, sessiontest.Memory(t), WithDirectAnswers(func(m *sdk.Message) bool { return strings.HasPrefix(m.ID, "direct") }))
	send := func(id, text string, config *sdk.SendMessageConfig) *sdk.SendMessageRequest {
		return &sdk.SendMessageRequest{Message: &sdk.Message{ID: id, Role: sdk.MessageRoleUser, Parts: sdk.ContentParts{sdk.NewTextPart(text)}}, Config: config}
	}
	h := handler{s}
	unary := func(req *sdk.SendMessageRequest) sdk.SendMessageResult {
		return must.Get(h.SendMessage(t.Context(), req))
	}
	message := func(e any) {
		m, ok := e.(*sdk.Message)
		require.True(t, ok, "%T", e)
		require.Empty(t, m.TaskID)
		require.NotEmpty(t, m.ContextID)
		require.Equal(t, sdk.MessageRoleAgent, m.Role)
		require.Len(t, m.Parts, 2)
		require.Equal(t, []byte("x"), m.Parts[0].Raw())
		require.Equal(t, "Done: hi", m.Parts[1].Text())
	}
	message(unary(send("direct1", "hi", nil)))
	require.IsType(t, &sdk.Task{}, unary(send("task", "hi", nil)))
	require.IsType(t, &sdk.Task{}, unary(send("direct2", "hi", &sdk.SendMessageConfig{ReturnImmediately: true})))
	failed := unary(send("direct3", "fail", nil)).(*sdk.Task)
	require.Equal(t, sdk.TaskStateFailed, failed.Status.State)
	events := must.All(h.SendStreamingMessage(t.Context(), send("direct4", "hi", nil)))
	require.Len(t, events, 1)
	message(events[0])
	events = nil
	events = append(events, must.All(h.SendStreamingMessage(t.Context(), send("direct5", "fail", nil)))...)
	require.Len(t, events, 1)
	require.Equal(t, sdk.TaskStateFailed, events[0].(*sdk.Task).Status.State)
}
