package integrity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAdoptions: a process that adopts a turn writes a notice in each open run, and the number of adoptions is bounded.
func TestAdoptions(t *testing.T) {
	const notice = ` notice {"code":"taken_over","message":""}` + "\n"
	begun, _, _ := strings.Cut(whole, "t2 r6/r5.1/a a harness_end")
	over := "t2 r5 graph" + notice + "t2 r6/r5.1/a a" + notice + "t2 r7/r5.2/b b" + notice
	left := `t2 r5 graph notice {"code":"left","message":""}` + "\n"
	stop := `t2 r5 graph notice {"code":"given_back","message":""}` + "\n"
	halt := `t2 r5 graph notice {"code":"stopped","message":""}` + "\n"
	stops := strings.Repeat(stop+over, 9)
	for name, c := range map[string]struct{ log, want string }{
		"once":                                 {over, ""},
		"three times":                          {over + over + over + left, ""},
		"got further":                          {over + over + over + left + "t2 r6/r5.1/a a text {\"content\":\"So.\"}\n" + over, ""},
		"a run is not told":                    {"t2 r5 graph" + notice + "t2 r6/r5.1/a a" + notice, "the open run r7 of the scope r5.2/b has no notice about it"},
		"four times":                           {over + over + "t2 r6/r5.1/a a discard {\"code\":\"x\",\"message\":\"\",\"ids\":[]}\n" + over + over, "after 4 deaths"},
		"left too early":                       {over + left, "after 1 deaths and 0 stops"},
		"stopped nine times, dies three times": {stops + over + over + over + left, ""},
		"stopped ten times":                    {stops + stop + left, ""},
		"stopped ten times, taken":             {stops + stop + over, "after 0 deaths and 10 stops"},
		"stopped, dies four times":             {stops + over + over + over + over, "after 4 deaths"},
		"stopped and left":                     {stops + left, "after 0 deaths and 9 stops"},
		"left twice":                           {over + over + over + left + left, "(given up before: true)"},
		"a user stops it":                      {over + halt, ""},
		"a user stops and resumes it":          {halt + `t2 r5 graph notice {"code":"resumed","message":""}` + "\n" + over, ""},
		"a user stops it, taken":               {halt + over, "only a user resumes it"},
		"a user stops it twice":                {halt + halt, "only a user resumes it"},
		"left, and taken":                      {over + over + over + left + over, "after 4 deaths"},
	} {
		t.Run(name, func(t *testing.T) {
			found := strings.Join(check(t, begun+c.log), "\n")
			if c.want == "" {
				require.Empty(t, found)
			}
			require.Contains(t, found, c.want)
		})
	}
}
