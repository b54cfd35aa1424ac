package eval

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// played makes results in which each case passes as often as said, of so many times.
func played(subject string, times int, passed ...int) Results {
	r := Results{Subject: subject}
	for i, n := range passed {
		for j := range times {
			o := Outcome{Case: fmt.Sprintf("case %d", i), File: "c.yaml", Line: i + 1, Repeat: j + 1, Turns: []TurnOutcome{{Expected: "a > b", Path: []string{"a", "b"}}}}
			if i%2 == 0 {
				o.Tags = []string{"even"}
			}
			if j >= n {
				o.Turns[0].Differences = []Difference{{kindPath, "got a"}}
			}
			r.Outcomes = append(r.Outcomes, o)
		}
	}
	return r
}

func report(subjects ...Results) *Report { return &Report{Subjects: subjects} }

func lines(all []Regression) (out []string) {
	for _, r := range all {
		out = append(out, r.String())
	}
	return out
}

func TestAgainst(t *testing.T) {
	for name, c := range map[string]struct {
		was, is *Report
		want    []string
	}{
		"the same":                {report(played("m", 1, 1, 0)), report(played("m", 1, 1, 0)), nil},
		"better":                  {report(played("m", 1, 1, 0)), report(played("m", 1, 1, 1)), nil},
		"one fails":               {report(played("m", 1, 1, 1)), report(played("m", 1, 1, 0)), []string{"m: case 1 passed 1 of 1 times, and now 0 of 1"}},
		"one fails at times":      {report(played("m", 3, 3, 3)), report(played("m", 3, 3, 2)), []string{"m: case 1 passed 3 of 3 times, and now 2 of 3"}},
		"it failed at times":      {report(played("m", 3, 3, 2)), report(played("m", 3, 3, 0)), nil},
		"more repetitions":        {report(played("m", 1, 1)), report(played("m", 5, 4)), []string{"m: case 0 passed 1 of 1 times, and now 4 of 5"}},
		"a case that is new":      {report(played("m", 1, 1)), report(played("m", 1, 1, 0, 0, 0, 0)), nil},
		"a case that is gone":     {report(played("m", 1, 1, 1, 1)), report(played("m", 1, 1)), nil},
		"another model, alone":    {report(played("old", 1, 1)), report(played("new", 1, 0)), []string{"new: case 0 passed 1 of 1 times, and now 0 of 1"}},
		"a model beside, by name": {report(played("m", 1, 1)), report(played("n", 1, 0), played("m", 1, 1)), nil},
		"several models, by name": {report(played("n", 1, 1), played("m", 1, 1)), report(played("m", 1, 0), played("n", 1, 1)), []string{"m: case 0 passed 1 of 1 times, and now 0 of 1"}},
		"shares, intervals apart": {report(played("m", 10, 9, 9)), report(played("m", 10, 9, 0)), []string{"m: passed is 9 of 20, 45 % (26–66 %), and was 18 of 20, 90 % (70–97 %)", "m: paths is 9 of 20, 45 % (26–66 %), and was 18 of 20, 90 % (70–97 %)"}},
		"shares, intervals touch": {report(played("m", 10, 9, 9)), report(played("m", 10, 9, 3)), nil},
		"a tag":                   {report(played("m", 10, 9, 5, 9, 5)), report(played("m", 10, 4, 9, 4, 9)), []string{"m: passed, tag even is 8 of 20, 40 % (22–61 %), and was 18 of 20, 90 % (70–97 %)"}},
		"shares that are better":  {report(played("m", 10, 1, 1)), report(played("m", 10, 9, 9)), nil},
	} {
		require.Equal(t, c.want, lines(c.is.Against(c.was)), name)
		// A baseline is read from a file.
		data, err := json.Marshal(c.was)
		require.NoError(t, err)
		again := &Report{}
		require.NoError(t, json.Unmarshal(data, again))
		require.Equal(t, c.want, lines(c.is.Against(again)), name)
	}
	require.Equal(t, []Regression{{Subject: "m", Case: "case 0", File: "c.yaml", Line: 1, What: "passed", Was: Wilson(1, 1), Is: Wilson(0, 1)}},
		report(played("m", 1, 0)).Against(report(played("m", 1, 1))))
}
