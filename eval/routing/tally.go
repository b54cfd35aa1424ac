package routing

import (
	"slices"

	"github.com/agentarbor/arbor/eval"
	"github.com/agentarbor/arbor/internal/asked"
	"github.com/agentarbor/arbor/internal/choice"
)

// Choice is how often the samples of a decision chose an agent.
type Choice struct {
	Name  string `json:"name"` // the agent's own name if it would answer, "" for none
	Times int    `json:"times"`
	// Low and High are the bounds of the share of all samples with this choice: the Wilson score interval with a
	// confidence of 95 %.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence is the average probability of the name among all names, by the log probabilities of the answers; nil
	// if the endpoint returns none, or was not asked for them.
	Confidence *float64 `json:"confidence,omitempty"`
}

// Tally counts the choices of samples of a decision. The order is: the targets as they were offered, the agent itself,
// and "" for answers that name no agent. It includes only choices that occurred, and no errors.
func (w *Why) Tally(s *asked.Samples) (choices []Choice) {
	var names []string
	for _, t := range w.Targets {
		names = append(names, t.Name)
	}
	times, sure, known, of := make(map[string]int), make(map[string]float64), make(map[string]int), 0
	for i := range s.Samples {
		a := &s.Samples[i]
		if a.Error != nil {
			continue
		}
		name := w.Agent
		switch {
		case w.Question:
			written := ""
			name, written = choice.Read(a.Words(), names)
			p, ok := choice.Confidence(a.LogProbs, name, written, names)
			if name == "" {
				name, p = choice.Likeliest(a.LogProbs, names, nil)
				ok = name != ""
			}
			if ok {
				sure[name], known[name] = sure[name]+p, known[name]+1
			}
		case a.Transfer != nil:
			name = a.Transfer.To
		}
		of++
		if times[name]++; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range append(names, "") {
		if times[name] == 0 {
			continue
		}
		share := eval.Wilson(times[name], of)
		c := Choice{Name: name, Times: times[name], Low: share.Low, High: share.High}
		if n := known[name]; n > 0 {
			mean := sure[name] / float64(n)
			c.Confidence = &mean
		}
		choices = append(choices, c)
		delete(times, name)
	}
	return choices
}
