package router_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentarbor/arbor/internal/testing/must"
	"github.com/agentarbor/arbor/router"
)

type utterance struct{ label, text string }

func utterances(t testing.TB, name string) (all []utterance) {
	b := must.Get(os.ReadFile(filepath.Join("testdata", name)))
	for line := range strings.Lines(string(b)) {
		label, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		require.True(t, ok, line)
		all = append(all, utterance{label, text})
	}
	return all
}

func learned(t testing.TB, all []utterance) router.Classifier {
	examples := make(map[string][]string)
	for _, u := range all {
		examples[u.label] = append(examples[u.label], u.text)
	}
	c, err := router.HeuristicIntent(examples)
	require.NoError(t, err)
	return c
}

// measured is how often the likeliest label is right, and what it is where the confidence is
// at least 0.5.
type measured struct{ all, right, sure, sureRight int }

func measure(t testing.TB, c router.Classifier, all []utterance) (m measured) {
	for _, u := range all {
		scores, err := c.Classify(context.Background(), router.Input{Text: u.text})
		require.NoError(t, err)
		best := router.Score{}
		for _, s := range scores {
			require.True(t, s.Value >= 0 && s.Value <= 1, "%v", s)
			if s.Value > best.Value {
				best = s
			}
		}
		m.all++
		if best.Label == u.label {
			m.right++
		}
		if best.Value >= 0.5 {
			if m.sure++; best.Label == u.label {
				m.sureRight++
			}
		}
	}
	return m
}

// String gives rates with Wilson's interval of 95 percent.
func (m measured) String() string {
	rate := func(k, n int) string {
		const z = 1.96
		p, f := float64(k)/float64(n), float64(n)
		middle, half := (p+z*z/(2*f))/(1+z*z/f), z*math.Sqrt(p*(1-p)/f+z*z/(4*f*f))/(1+z*z/f)
		return fmt.Sprintf("%d of %d, %.1f %% (%.1f to %.1f)", k, n, 100*p, 100*(middle-half), 100*(middle+half))
	}
	return "right: " + rate(m.right, m.all) + "; of those with a confidence of 0.5 or more: " + rate(m.sureRight, m.sure)
}

// TestHeuristicIntent measures the classifier on messages that it was not made from.
func TestHeuristicIntent(t *testing.T) {
	c := learned(t, utterances(t, "intent-examples.tsv"))
	require.Equal(t, c, learned(t, utterances(t, "intent-examples.tsv")), "the same examples give the same classifier")
	for _, half := range []string{"tune", "held"} {
		m := measure(t, c, utterances(t, "intent-"+half+".tsv"))
		t.Log(half+":", m)
		require.Greater(t, float64(m.right)/float64(m.all), 0.6)
		require.Greater(t, float64(m.sureRight)/float64(m.sure), 0.75)
	}
}

var clinc = flag.String("clinc", "", "the file data_small.json of the CLINC150 data, to measure with")

// TestClinc measures the classifier with public data, which is not in this repository.
func TestClinc(t *testing.T) {
	if *clinc == "" {
		t.Skip("without -clinc")
	}
	b := must.Get(os.ReadFile(*clinc))
	var data map[string][][2]string
	require.NoError(t, json.Unmarshal(b, &data))
	for _, most := range []int{10, 50} {
		var train, test []utterance
		of := make(map[string]int)
		for _, pair := range data["train"] {
			if of[pair[1]]++; of[pair[1]] <= most {
				train = append(train, utterance{pair[1], pair[0]})
			}
		}
		for _, pair := range data["test"] {
			test = append(test, utterance{pair[1], pair[0]})
		}
		c := learned(t, train)
		t.Logf("%d examples for each of %d labels: %s", most, len(of), measure(t, c, test))
		var none []utterance
		for _, pair := range data["oos_test"] {
			none = append(none, utterance{"", pair[0]})
		}
		m := measure(t, c, none)
		t.Logf("of %d messages without a label, %d have a confidence of 0.5 or more", m.all, m.sure)
	}
}
