package openaiapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentarbor/arbor/access"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/live"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/server/internal/turntext"
	"github.com/agentarbor/arbor/session"
)

type (
	wireChat struct {
		ID      string       `json:"id"`
		Object  string       `json:"object"`
		Created int64        `json:"created"`
		Model   string       `json:"model"`
		Choices []wireChoice `json:"choices"`
		Usage   *wireUsage   `json:"usage,omitempty"`
		Arbor   *wireArbor   `json:"arbor,omitempty"`
	}
	wireChoice struct {
		Index        int           `json:"index"`
		Message      *wireMessage  `json:"message,omitempty"`
		Delta        *wireMessage  `json:"delta,omitempty"`
		LogProbs     *struct{}     `json:"logprobs"`
		FinishReason *finishReason `json:"finish_reason"`
	}
	wireMessage struct {
		Role      string     `json:"role,omitempty"`
		Content   *string    `json:"content,omitempty"`
		ToolCalls []wireCall `json:"tool_calls,omitempty"`
	}
	wireUsage struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	wireArbor    = responses.Arbor
	finishReason = string
)

// chat answers a chat completion.
func (h *Handler) chat(c *front.Call) error {
	r, err := h.readChat(c)
	if err != nil {
		return err
	}
	stays, err := continues(c.R)
	if err != nil {
		return err
	}
	q, err := h.place(c, r)
	if err != nil {
		return err
	}
	out := &chatAnswer{h: h, c: c, stays: stays, r: r}
	if r.Stream { // which there may be too many of
		var leave func()
		if out.stream, leave, err = c.Stream(); err != nil {
			return err
		}
		defer leave()
	}
	a, err := h.chats.Begin(c.R.Context(), q)
	if err != nil {
		return err
	}
	c.Session, c.Turn = a.Key.ID, a.Turn
	c.W.Header().Set("Arbor-Session", a.Key.ID)
	out.a, out.out = a, wireChat{ID: nameOf(a), Created: time.Now().Unix(), Model: r.Model}
	err = out.write()
	if len(out.shown) > 0 {
		h.chats.Sent(a, string(out.shown))
	}
	return err
}

// nameOf returns the id of a completion. It is another one for each part of a turn, because LangGraph takes messages of one id
// for one message, and the same for a request that is repeated.
func nameOf(a *chats.Answer) string {
	id := "chatcmpl-" + a.Turn
	if a.After > a.First {
		id += "-" + strconv.FormatInt(a.After, 10)
	}
	return id
}

// place finds where a conversation goes on.
func (h *Handler) place(c *front.Call, r *chatRequest) (q *chats.Ask, err error) {
	q = &chats.Ask{Agent: r.agent, Past: r.past, Now: r.now, Wait: c.PreferredWait()}
	if q.ID, q.Repeats, err = repeats(c.R); err != nil {
		return nil, err
	}
	var wrong faults
	q.Metadata = kept(r.Metadata, r.User, &wrong)
	if q.Decisions = r.results; q.Decisions != nil {
		q.Repeats = true // a result is given once
	}
	h.brought(r.Tools, r.ToolChoice, q.Metadata, &wrong)
	wanted(r.Format, r.formatAt, q.Metadata, &wrong)
	if err := wrong.err(); err != nil {
		return nil, err
	}
	name := c.R.Header.Get("Arbor-Session")
	if q.Key, err = h.key(c, r.agent, cmp.Or(name, "new")); err != nil { // which says whose it is
		return nil, err
	}
	q.Key.ID = name
	return q, h.chats.Place(c.R.Context(), q)
}

// chatAnswer writes an answer.
type chatAnswer struct {
	h     *Handler
	c     *front.Call
	stays bool
	r     *chatRequest
	a     *chats.Answer
	out   wireChat
	words turntext.Joiner
	shown []byte // to the client
	see   func(*event.Event) *event.Event

	stream        *access.Stream
	sent          bool        // anything
	begin         *time.Timer // of the stream, if nobody says anything for a while
	before, after []byte      // what stands around the words in a chunk
	frame         []byte      // the last one, to be written over
}

func (w *chatAnswer) write() error {
	w.see = w.c.EventFilter()
	if !w.r.Stream {
		return w.whole()
	}
	w.begin = time.AfterFunc(w.h.silence, func() { _ = w.stream.Begin() }) // an error is that of a client who has gone
	defer w.begin.Stop()
	rep, err := w.run(w.delta)
	if err == nil {
		err = w.last(rep)
	}
	ctx := w.stream.Context()
	err = front.CauseOf(ctx, err)
	if err == nil || w.begin.Stop() && !w.sent || ctx.Err() != nil && !errors.Is(err, access.ErrRevoked) {
		return err // nothing was sent, so that the error can have a status
	}
	if errors.Is(err, turntext.ErrRestarted) {
		err = &front.Fault{Status: http.StatusConflict, Code: "answer_restarted", Detail: err.Error()}
	}
	_ = w.json(map[string]any{"error": errorOf(front.FaultOf(err))})
	return err
}

// run goes through the answer, and gives each entry with its words to take.
func (w *chatAnswer) run(take func(session.Entry, []turntext.Piece) error) (*live.Report, error) {
	if w.a.Again != nil {
		return w.a.Again, nil
	}
	ctx := w.c.R.Context()
	if w.stream != nil {
		ctx = w.stream.Context()
	}
	var reader turntext.Reader
	return w.h.follow(ctx, w.a, w.stays, func(en session.Entry, rep *live.Report) error {
		if w.stream == nil && en.Event.Partial {
			return nil
		}
		reader.Begin(rep.User)
		return take(en, reader.Next(en))
	})
}

// json sends a frame.
func (w *chatAnswer) json(v any) error {
	w.sent = true
	return w.stream.SendJSON("", v)
}

// whole answers at once.
func (w *chatAnswer) whole() error {
	var events []*event.Event
	rep, err := w.run(func(en session.Entry, said []turntext.Piece) error {
		if e := w.see(en.Event); w.r.Arbor.Events && e != nil {
			events = append(events, e)
		}
		return w.take(en, said)
	})
	if err != nil {
		return err
	}
	if _, err := w.words.End(w.h.question(w.c, w.a.Key, front.OpenQuestions(rep), w.a.Refuse)); err != nil {
		return err
	}
	if w.shown = w.words.Text(); noOutput(rep, w.shown) {
		return errNoOutput
	}
	text, finish := string(w.shown), finishOf(rep)
	w.out.Object = "chat.completion"
	w.out.Choices = []wireChoice{{Message: &wireMessage{Role: "assistant", Content: &text, ToolCalls: callsOf(front.OpenQuestions(rep), false)}, FinishReason: &finish}}
	w.out.Usage, w.out.Arbor = usageOf(rep.Usage), w.arbor(rep)
	w.out.Arbor.Events = events
	return w.c.JSON(http.StatusOK, w.out)
}

// take puts words to the others.
func (w *chatAnswer) take(_ session.Entry, said []turntext.Piece) (err error) {
	for _, p := range said {
		if _, err = w.words.Add(p); err != nil {
			return err
		}
	}
	return nil
}

func (w *chatAnswer) arbor(rep *live.Report) *wireArbor {
	return &wireArbor{Session: w.a.Key.ID, Turn: w.a.Turn, Agent: rep.Agent, State: rep.State, Pending: responses.PendingOf(rep.Pending)}
}

// delta sends what an entry has for the client.
func (w *chatAnswer) delta(en session.Entry, said []turntext.Piece) error {
	if e := w.see(en.Event); w.r.Arbor.Events && e != nil {
		out := w.out
		out.Object, out.Choices, out.Arbor = "chat.completion.chunk", []wireChoice{}, &wireArbor{Events: []*event.Event{e}}
		if err := w.json(out); err != nil {
			return err
		}
	}
	for _, p := range said {
		words, err := w.words.Add(p)
		if err == nil && words != "" {
			err = w.send(words)
		}
		if err != nil {
			return err
		}
	}
	w.c.ObserveDelta(en.Event)
	return nil
}

// send sends words. The first ones say whose they are; what all the others have in common is written once.
func (w *chatAnswer) send(words string) error {
	w.shown = append(w.shown, words...)
	if w.before == nil {
		const here = "\x00"
		hole, out := here, w.out
		out.Object, out.Choices = "chat.completion.chunk", []wireChoice{{Delta: &wireMessage{Content: &hole}}}
		before, after, _ := strings.Cut(string(event.EncodeJSON(out)), `"\u0000"`)
		w.before, w.after = []byte(before), []byte(after)
		out.Choices[0].Delta = &wireMessage{Role: "assistant", Content: &words}
		out.Arbor = &wireArbor{Session: w.a.Key.ID, Turn: w.a.Turn}
		return w.json(out)
	}
	w.frame = append(append(append(w.frame[:0], w.before...), event.EncodeJSON(words)...), w.after...)
	return w.stream.Send(access.Frame{Data: w.frame})
}

// last ends the stream.
func (w *chatAnswer) last(rep *live.Report) error {
	words, err := w.words.End(w.h.question(w.c, w.a.Key, front.OpenQuestions(rep), w.a.Refuse))
	if err == nil && noOutput(rep, w.shown) {
		err = errNoOutput
	}
	if err == nil && (words != "" || w.before == nil) {
		err = w.send(words)
	}
	if err != nil {
		return err
	}
	if calls := callsOf(front.OpenQuestions(rep), true); calls != nil {
		out := w.out
		out.Object, out.Choices = "chat.completion.chunk", []wireChoice{{Delta: &wireMessage{ToolCalls: calls}}}
		if err := w.json(out); err != nil {
			return err
		}
	}
	out, finish := w.out, finishOf(rep)
	out.Object, out.Choices = "chat.completion.chunk", []wireChoice{{Delta: &wireMessage{}, FinishReason: &finish}}
	out.Arbor = w.arbor(rep)
	if err := w.json(out); err != nil {
		return err
	}
	if w.r.StreamOptions.IncludeUsage {
		out.Choices, out.Usage, out.Arbor = []wireChoice{}, usageOf(rep.Usage), nil
		if err := w.json(out); err != nil {
			return err
		}
	}
	return w.stream.Send(access.Frame{Data: []byte("[DONE]")})
}

// finishOf is the reason in the words of the protocol; what is asked is part of the words.
func finishOf(rep *live.Report) string {
	if front.ClientCalls(front.OpenQuestions(rep)) != nil {
		return "tool_calls"
	}
	switch rep.FinishReason {
	case event.FinishReasonLength, event.FinishReasonContentFilter:
		return string(rep.FinishReason)
	}
	return string(event.FinishReasonStop)
}

func usageOf(u llm.Usage) *wireUsage {
	w := &wireUsage{PromptTokens: u.InputTokens, CompletionTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens}
	w.Details.CachedTokens = u.CachedTokens
	return w
}
