package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/internal/phrases"
	"github.com/agentarbor/arbor/llm"
	"github.com/agentarbor/arbor/router/internal/examples"
)

// Kind is the kind of signal that a classifier measures.
type Kind string

// The kinds of signals.
const (
	KindIntent    Kind = "intent"    // what the user wants; the values are confidences
	KindSentiment Kind = "sentiment" // how the user feels; the values are strengths
	KindLanguage  Kind = "language"  // labels are BCP 47 tags; the metadata key "language" takes precedence
)

var kinds = [...]Kind{KindIntent, KindSentiment, KindLanguage}

// place returns the index of the kind in kinds, or -1.
func (k Kind) place() int { return slices.Index(kinds[:], k) }

// Score is how much a label fits, from 0 to 1.
type Score struct {
	Label string  `json:"label"`
	Value float64 `json:"value"`
}

// Classifier measures one kind of signal. It is safe for concurrent use.
//
// The router calls Classify at most once a decision, on a separate goroutine, and only if it reaches a rule that needs
// the signal. When the deadline passes, the context ends and Classify must return. The router continues without the
// signal and ignores a later result. While 64 such late calls of a classifier have not returned, the router does not
// call it again; calls that decisions wait for at that moment may still become late too. After an error or a panic,
// the signal is not known. Labels that Classify does not return have the value 0.
type Classifier interface {
	Kind() Kind
	// Labels returns all labels that Classify can return, or nil if they are not known. If they are known, a rule with
	// another label is an error of [New].
	Labels() []string
	Classify(ctx context.Context, in Input) ([]Score, error)
}

// Input is the part of a turn that a classifier reads.
type Input struct {
	Text     string         // the user's message as plain text
	Metadata map[string]any // of the message; it is shared and must not be changed
	ask      func(ctx context.Context, model llm.Model, req *llm.Request) (string, []llm.LogProb, error)
}

// defaultDeadline is the time that a classifier may take without [Within]. A decision measures at most three
// signals, so it takes less than 200 ms unless Within allows more.
const defaultDeadline = 50 * time.Millisecond

// Within sets the deadline of a classifier. Defaults to 50 ms. If the signal comes later, the
// message is routed without it, and a notice reports that.
func Within(d time.Duration, c Classifier) Classifier { return &timed{c, d} }

type timed struct {
	Classifier
	deadline time.Duration
}

// heuristic is a classifier of this package that never waits for anything, so that it needs no deadline.
type heuristic interface{ scores(text string) []Score }

// unwrapped returns the classifier that Within has wrapped, and its deadline, or 0 without one.
func unwrapped(c Classifier) (Classifier, time.Duration) {
	d := time.Duration(0)
	for t, ok := c.(*timed); ok; t, ok = c.(*timed) {
		c, d = t.Classifier, cmp.Or(d, t.deadline)
	}
	return c, d
}

// The codes of the notices that a router writes.
const (
	NoticeSignalLate   = "signal_late"   // a classifier has missed its deadline
	NoticeSignalFailed = "signal_failed" // a classifier has failed
	NoticeRuleFailed   = "rule_failed"   // an expression has no value, so its rule does not match
)

// signal is the outcome of a classifier for one decision.
type signal struct {
	measured bool
	scores   []Score // the highest first; nil if the classifier was late or failed
	top      Score
}

// of returns the value of a label.
func (s *signal) of(label string) float64 {
	if i := slices.IndexFunc(s.scores, func(o Score) bool { return o.Label == label }); i >= 0 {
		return s.scores[i].Value
	}
	return 0
}

// maxScores is the maximum number of scores that a decision keeps.
const maxScores = 32

// plausible returns the scores with a label and a number, limited to the range from 0 to 1, the highest first.
func plausible(scores []Score) []Score {
	all := make([]Score, 0, len(scores))
	for _, s := range scores {
		if s.Label != "" && !math.IsNaN(s.Value) {
			all = append(all, Score{event.ValidText(s.Label), max(0, min(s.Value, 1))})
		}
	}
	slices.SortStableFunc(all, func(a, b Score) int { return cmp.Compare(b.Value, a.Value) })
	return all[:min(len(all), maxScores)]
}

// measure returns the signal of a kind. It calls the classifier once a decision.
func (d *deciding) measure(kind Kind) *signal {
	s := &d.signals[kind.place()]
	if s.measured || d.engine.classifiers[kind] == nil {
		return s
	}
	s.measured = true
	c := d.engine.classifiers[kind]
	ctx, cancel := context.WithTimeout(d.ctx, c.deadline)
	defer cancel()
	scores, err := d.classify(ctx, c)
	switch {
	case d.ctx.Err() != nil: // the turn is over
	case errors.Is(err, errLate):
		d.notice(NoticeSignalLate, "the %s of the message is not known: %d earlier calls of the classifier have not returned", kind, maxLate)
	case err != nil && ctx.Err() != nil:
		d.notice(NoticeSignalLate, "the %s of the message is not known: that took longer than %s", kind, c.deadline)
	case err != nil: // the notice does not contain the error, which may quote anything
		code := agent.ErrorCode(err)
		d.logger.Warn("a classifier failed", "router", d.engine.name, "kind", string(kind), "error", err)
		d.notice(NoticeSignalFailed, "the %s of the message is not known: %s", kind, cmp.Or(code, "the classifier failed"))
	default:
		if s.scores = plausible(scores); len(s.scores) > 0 {
			s.top = s.scores[0]
		}
	}
	return s
}

// classify calls a classifier.
func (d *deciding) classify(ctx context.Context, c *source) ([]Score, error) {
	in := Input{Text: d.turn.Message, Metadata: d.turn.Metadata}
	if h, ok := c.Classifier.(heuristic); ok { // a separate goroutine could miss the deadline on a busy machine
		return h.scores(in.Text), nil
	}
	var scores []Score
	err := c.call(ctx, func(ctx context.Context, do func(func()) bool) (err error) {
		in.ask = func(ctx context.Context, model llm.Model, req *llm.Request) (answer string, probs []llm.LogProb, err error) {
			if !do(func() { answer, probs, err = d.ask(ctx, deadlineModel{model, c}, req) }) {
				err = ctx.Err()
			}
			return answer, probs, err
		}
		scores, err = c.Classify(ctx, in)
		return err
	})
	if err = cmp.Or(err, ctx.Err()); err != nil {
		return nil, err // a late call may still change scores
	}
	return scores, nil
}

// ask calls a model, on the goroutine of the step. It emits the usage, or a discard if the answer is incomplete.
func (d *deciding) ask(ctx context.Context, model llm.Model, req *llm.Request) (answer string, probs []llm.LogProb, err error) {
	var text strings.Builder
	var usage llm.Usage
	name, finished, begun := model.Name(), false, false
	for chunk, failed := range d.generate(ctx, model, req) {
		if err = failed; err != nil {
			break
		}
		if a := chunk.Lost; a != nil {
			void := &event.Discard{Code: string(a.Code), Message: a.Message}
			if u := a.Usage; u != nil {
				void.Usage = &event.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens, Model: a.Model}
			}
			d.emit(void)
		}
		if n := chunk.Notice; n != nil {
			d.emit(&event.Notice{Code: n.Code, Message: n.Message})
		}
		if chunk.Lost != nil || chunk.Notice != nil {
			continue
		}
		text.WriteString(chunk.Text)
		probs = append(probs, chunk.LogProbs...)
		if chunk.Usage != nil {
			usage, _ = chunk.Usage.Plausible()
		}
		name, finished, begun = cmp.Or(chunk.Model, name), finished || chunk.Finish != "", true
	}
	if err == nil && !finished {
		err = &llm.Error{Code: llm.CodeTruncated, Message: "the answer ended before its terminal signal"}
	}
	err = cmp.Or(ctx.Err(), err)
	used := &event.Usage{InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, CachedTokens: usage.CachedTokens, Model: name}
	switch {
	case err == nil:
		d.emit(used)
	case begun || !errors.Is(err, agent.ErrLimit) && !errors.Is(err, agent.ErrUnknownPrice) && !errors.Is(err, agent.ErrUnknownUsage): // otherwise the model was not asked
		void := &event.Discard{Code: cmp.Or(agent.ErrorCode(err), NoticeSignalFailed), Message: "the model's answer about the user's intent is incomplete"}
		if ctx.Err() != nil {
			void.Code = NoticeSignalLate
		}
		if usage != (llm.Usage{}) {
			void.Usage = used
		}
		d.emit(void)
	}
	return text.String(), probs, err
}

// HeuristicIntent returns a classifier of intents. It takes at least ten examples of messages for each label. The
// classifier compares words, pairs of words and parts of words with the examples; the same examples give the same
// classifier. The confidence is higher the better the label fits than the others, and lower if little of the message
// occurs in the examples. It knows the endings of English words; for other languages it compares parts of words. It is
// safe for concurrent use.
func HeuristicIntent(of map[string][]string) (Classifier, error) {
	c, err := examples.Learn(of)
	if err != nil {
		return nil, fmt.Errorf("router: the examples of intents: %w", err)
	}
	return &byExample{c}, nil
}

type byExample struct{ *examples.Classes }

func (c *byExample) Kind() Kind { return KindIntent }

func (c *byExample) Classify(_ context.Context, in Input) ([]Score, error) {
	return c.scores(in.Text), nil
}

func (c *byExample) scores(text string) []Score {
	values := c.Classes.Classify(choice.Shorten(text))
	scores := make([]Score, len(values))
	for i, label := range c.Labels() {
		scores[i] = Score{label, values[i]}
	}
	return scores
}

// HeuristicSentiment returns a classifier of the label "frustration", for English. Words and phrases of frustrated
// people, repeated exclamation marks, and sentences in capital letters raise the strength; thanks and patience lower
// it. One strong word gives about 0.7, a mild one 0.4. It does not recognize irony.
func HeuristicSentiment() Classifier { return lexical{} }

type lexical struct{}

func (lexical) Kind() Kind       { return KindSentiment }
func (lexical) Labels() []string { return []string{"frustration"} }

func (c lexical) Classify(_ context.Context, in Input) ([]Score, error) {
	return c.scores(in.Text), nil
}

func (lexical) scores(text string) []Score {
	return []Score{{"frustration", phrases.Frustration(choice.Shorten(text))}}
}

// Label is an intent of users, with a description that a model reads.
type Label struct{ Name, Description string }

// ModelIntent returns a classifier of intents that asks a model for the name of the label that fits. The confidence
// compares the log probability of the name with those of the other labels; it is 1 if the endpoint returns no log
// probabilities. The request has a temperature of 0, at most 64 tokens, and the 20 likeliest tokens at each place. For
// an endpoint that refuses one of these settings, change can alter them; change may be nil.
//
// Only a router can call it, in a turn or in [Router.Explain]. A model takes longer than the default of 50 ms. Therefore
// [New] requires that the classifier is wrapped in [Within]. The deadline also holds for a model that ignores its
// context.
func ModelIntent(model llm.Model, labels []Label, change func(*llm.Settings)) (Classifier, error) {
	c := &byModel{model: model, change: change}
	for i, l := range labels {
		switch {
		case strings.TrimSpace(l.Name) == "" || strings.ContainsAny(l.Name, "\r\n"):
			return nil, fmt.Errorf("router: the name of label %d, %q, is not a word on one line", i, l.Name)
		case slices.Contains(c.labels, l.Name):
			return nil, fmt.Errorf("router: there are two labels %q", l.Name)
		}
		c.labels = append(c.labels, l.Name)
		c.list += "- " + l.Name + ": " + l.Description + "\n"
	}
	switch {
	case model == nil:
		return nil, errors.New("router: the model of a classifier is nil")
	case len(labels) < 2:
		return nil, errors.New("router: a model needs two labels or more to choose from; one of them can be for everything else")
	}
	return c, nil
}

type byModel struct {
	model  llm.Model
	labels []string
	list   string
	change func(*llm.Settings)
}

func (c *byModel) Kind() Kind       { return KindIntent }
func (c *byModel) Labels() []string { return c.labels }

func (c *byModel) Classify(ctx context.Context, in Input) ([]Score, error) {
	if in.ask == nil {
		return nil, errors.New("a model is asked for an intent only by a router")
	}
	var cold float64
	settings := llm.Settings{Temperature: &cold, MaxTokens: 64, TopLogProbs: 20, LeakedCalls: llm.LeakedCallsOff}
	if c.change != nil {
		c.change(&settings)
	}
	answer, probs, err := in.ask(ctx, c.model, &llm.Request{Settings: settings,
		System:   "You do not answer the message. You say what its author wants, by one of these names:\n" + c.list + "Reply with the name and nothing else.",
		Messages: []llm.Message{llm.UserText("Message: " + string(event.EncodeJSON(choice.Shorten(in.Text))) + "\nName:")}})
	if err != nil {
		return nil, err
	}
	name, written := choice.Read(answer, c.labels)
	sure, known := choice.Confidence(probs, name, written, c.labels)
	if name == "" {
		name, sure = choice.Likeliest(probs, c.labels, nil)
		known = name != ""
	}
	switch {
	case name == "":
		return nil, errors.New("the model named none of the labels")
	case !known:
		sure = 1
	}
	return []Score{{name, sure}}, nil
}
