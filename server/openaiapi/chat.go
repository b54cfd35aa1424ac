package openaiapi

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/runner"
	"github.com/agentarbor/arbor/server/access"
	"github.com/agentarbor/arbor/server/internal/chats"
	"github.com/agentarbor/arbor/server/internal/front"
	"github.com/agentarbor/arbor/server/internal/responses"
	"github.com/agentarbor/arbor/server/internal/turntext"
	"github.com/agentarbor/arbor/server/live"
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
	q, err := h.placeChat(c, r)
	if err != nil {
		return err
	}
	out := &chatAnswer{h: h, c: c, stays: stays, r: r}
	if r.Stream { // opened before the turn starts, because the user may have too many streams
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
	if err = out.write(); err != nil {
		a.Seq = 0 // the client may not have the question at the end
	}
	if len(out.shown) > 0 {
		h.chats.Sent(a, string(out.shown))
	}
	if err == nil && received(c, out.stream) {
		h.chats.Shown(a)
	}
	return err
}

// nameOf returns the id of a completion. A repeated request gets the same id. Each part of a turn has an id of its own,
// because LangGraph treats messages with the same id as one message.
func nameOf(a *chats.Answer) string {
	id := "chatcmpl-" + a.Turn
	if a.After > a.First {
		id += "-" + strconv.FormatInt(a.After, 10)
	}
	return id
}

// placeChat finds the session and the turn that a conversation continues.
func (h *Handler) placeChat(c *front.Call, r *chatRequest) (q *chats.Ask, err error) {
	q = &chats.Ask{Agent: r.agent, Past: r.past, Now: r.now, Wait: c.PreferredWait()}
	if q.ID, q.Repeats, err = requestID(c.R); err != nil {
		return nil, err
	}
	var wrong faults
	q.Metadata = metadataOf(r.Metadata, r.User, &wrong)
	if len(r.now) > 0 {
		q.Results = r.results
	} else if r.results != nil {
		q.Decisions, q.Repeats = r.results, true // a call gets one result
	}
	h.readTools(r.Tools, r.ToolChoice, q.Metadata, &wrong)
	readFormat(r.Format, r.formatAt, q.Metadata, &wrong)
	if err := wrong.err(); err != nil {
		return nil, err
	}
	name := c.R.Header.Get("Arbor-Session")
	if name != "" && session.CheckKey(session.ID(name)) != nil {
		return nil, front.BadRequest("the header Arbor-Session must be 1 to 255 bytes of UTF-8, without NUL")
	}
	if q.Key, err = h.key(c, r.agent, cmp.Or(name, "new")); err != nil { // checks the header user
		return nil, err
	}
	q.Key.ID = name
	return q, h.chats.Place(c.R.Context(), q)
}

// chatAnswer writes the answer of a chat completion.
type chatAnswer struct {
	h      *Handler
	c      *front.Call
	stays  bool
	r      *chatRequest
	a      *chats.Answer
	out    wireChat
	text   turntext.Joiner
	shown  []byte // to the client
	filter func(*event.Event) *event.Event
	events []*event.Event // of an answer without a stream

	stream *access.Stream
	sent   bool          // a frame was sent
	said   bool          // a chunk with text was sent
	begin  *time.Timer   // sends the headers after a silence
	part   runner.Result // of the events of this answer, which may be a part of a turn
}

func (w *chatAnswer) write() error {
	w.filter = w.c.EventFilter()
	if w.stream == nil {
		return w.writeWhole()
	}
	w.begin = time.AfterFunc(w.h.silence, func() { _ = w.stream.Begin() }) // fails only if the client has disconnected
	defer w.begin.Stop()
	rep, err := w.run()
	if err == nil {
		err = w.finish(rep)
	}
	ctx := w.stream.Context()
	err = front.CauseOf(ctx, err)
	if err == nil || w.begin.Stop() && !w.sent || ctx.Err() != nil && !errors.Is(err, access.ErrRevoked) {
		return err // nothing was sent, so the error can still set the status
	}
	if errors.Is(err, turntext.ErrRestarted) {
		err = &front.Fault{Status: http.StatusConflict, Code: "answer_restarted", Detail: err.Error()}
	}
	_ = w.json(map[string]any{"error": errorOf(front.FaultOf(err))})
	return err
}

// run takes all entries of the answer.
func (w *chatAnswer) run() (*live.Report, error) {
	if w.a.Unanswered != nil {
		return w.a.Unanswered, nil
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
		if en.Event.Seq >= w.a.First { // before it comes what the client has not seen yet
			w.part.Apply(en.Event)
		}
		reader.Begin(rep.User)
		return w.take(en, reader.Next(en))
	})
}

// json sends a frame.
func (w *chatAnswer) json(v any) error {
	w.sent = true
	return w.stream.SendJSON("", v)
}

// writeWhole answers without a stream.
func (w *chatAnswer) writeWhole() error {
	rep, err := w.run()
	if err == nil {
		err = w.end(rep)
	}
	if err != nil {
		w.shown = nil // the client receives none of it
		return err
	}
	text, finish := string(w.shown), finishOf(rep)
	w.out.Object = "chat.completion"
	w.out.Choices = []wireChoice{{Message: &wireMessage{Role: "assistant", Content: &text, ToolCalls: callsOf(front.OpenQuestions(rep), false)}, FinishReason: &finish}}
	w.out.Usage, w.out.Arbor = usageOf(w.part.Usage), w.arbor(rep)
	w.out.Arbor.Events = w.events
	return w.c.JSON(http.StatusOK, w.out)
}

func (w *chatAnswer) arbor(rep *live.Report) *wireArbor {
	return &wireArbor{Session: w.a.Key.ID, Turn: w.a.Turn, Agent: rep.Agent, State: rep.State, Pending: responses.PendingOf(rep.Pending)}
}

// take adds the event and the text of an entry to the answer.
func (w *chatAnswer) take(en session.Entry, pieces []turntext.Piece) error {
	switch e := w.filter(en.Event); {
	case !w.r.Arbor.Events || e == nil:
	case w.stream == nil:
		w.events = append(w.events, e)
	default:
		if err := w.chunk(&wireArbor{Events: []*event.Event{e}}); err != nil {
			return err
		}
	}
	for _, p := range pieces {
		text, err := w.text.Add(p)
		if err == nil {
			text = w.r.stops.pass(text)
		}
		if text != "" {
			err = w.say(text)
		}
		if err != nil {
			return err
		}
	}
	w.c.ObserveDelta(en.Event)
	return nil
}

// chunk sends a chunk.
func (w *chatAnswer) chunk(arbor *wireArbor, choices ...wireChoice) error {
	out := w.out
	out.Object, out.Choices, out.Arbor = "chat.completion.chunk", append([]wireChoice{}, choices...), arbor
	return w.json(out)
}

// say adds text to the answer. The first chunk of a stream has the role and the session.
func (w *chatAnswer) say(text string) error {
	w.shown = append(w.shown, text...)
	if w.stream == nil {
		return nil
	}
	if w.said {
		return w.chunk(nil, wireChoice{Delta: &wireMessage{Content: &text}})
	}
	w.said = true
	return w.chunk(&wireArbor{Session: w.a.Key.ID, Turn: w.a.Turn}, wireChoice{Delta: &wireMessage{Role: "assistant", Content: &text}})
}

// end adds the end of the text: what could have been the start of a stop sequence, and the question to the user.
func (w *chatAnswer) end(rep *live.Report) error {
	text, err := w.text.End(w.h.question(w.c, w.a.Key, front.OpenQuestions(rep), w.a.Refuse))
	if err == nil && noOutput(rep, w.text.Text()) {
		err = errNoOutput
	}
	text = w.r.stops.rest() + text
	if err == nil && (text != "" || !w.said) {
		err = w.say(text)
	}
	return err
}

// finish ends the stream.
func (w *chatAnswer) finish(rep *live.Report) error {
	if err := w.end(rep); err != nil {
		return err
	}
	if calls := callsOf(front.OpenQuestions(rep), true); calls != nil {
		if err := w.chunk(nil, wireChoice{Delta: &wireMessage{ToolCalls: calls}}); err != nil {
			return err
		}
	}
	finish := finishOf(rep)
	if err := w.chunk(w.arbor(rep), wireChoice{Delta: &wireMessage{}, FinishReason: &finish}); err != nil {
		return err
	}
	if w.r.StreamOptions.IncludeUsage {
		w.out.Usage = usageOf(w.part.Usage)
		if err := w.chunk(nil); err != nil {
			return err
		}
	}
	return w.stream.Send(access.Frame{Data: []byte("[DONE]")})
}

// finishOf returns the finish reason of the protocol. A question to the user is part of the text and ends with "stop".
func finishOf(rep *live.Report) string {
	if len(front.ClientCalls(front.OpenQuestions(rep))) > 0 {
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
