package router

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentarbor/arbor/event"
	"github.com/agentarbor/arbor/internal/choice"
	"github.com/agentarbor/arbor/llm"
)

// Label is an intent of users, with a description that a model reads.
type Label struct{ Name, Description string }

// ModelIntent returns a classifier of intents that asks a model for the name of the label that fits. The confidence
// compares the log probability of the name with those of the other labels; it is 1 if the endpoint returns no log
// probabilities. The request has a temperature of 0, at most 64 tokens, and the 20 likeliest tokens at each place. For
// an endpoint that refuses one of these settings, change can alter them; change may be nil.
//
// A model takes longer than the default of 50 ms. Therefore [New] requires that the classifier is wrapped in
// [Within]. The deadline also holds for a model that ignores its context.
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
