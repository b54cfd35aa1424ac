package eval

import (
	"context"
	"fmt"

	"github.com/agentarbor/arbor/agent"
	"github.com/agentarbor/arbor/internal/visible"
)

// TB contains the methods of a *testing.T that [Test] uses.
type TB[T any] interface {
	Helper()
	Context() context.Context
	Run(name string, f func(T)) bool
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Test plays the cases of a file with a tree, each in a subtest with its name. A subtest fails if a result differs from
// the expected one:
//
//	func TestRouting(t *testing.T) { eval.Test(t, root, "testdata/cases.yaml") }
//
// The cases run one after the other, so that -run selects among them; [Parallel] sets how many repetitions of a case
// run at once. A file with mistakes, names that the tree does not have, and a model that cannot be asked end the test.
func Test[T TB[T]](t T, root agent.Agent, file string, opts ...Option) {
	t.Helper()
	cases, err := LoadFile(file)
	if err == nil {
		err = Check(cases, root)
	}
	if err != nil {
		t.Fatalf("%s", err)
		return
	}
	for _, c := range cases {
		t.Run(c.Name, func(t T) {
			t.Helper()
			report, err := Run(t.Context(), []Case{c}, []Subject{{Root: root}}, opts...)
			if err != nil {
				t.Fatalf("%s", err)
				return
			}
			for _, o := range report.Subjects[0].Outcomes {
				again := ""
				if report.Repeat > 1 {
					again = fmt.Sprintf(" (repetition %d of %d)", o.Repeat, report.Repeat)
				}
				for _, turn := range o.Turns {
					for _, d := range turn.Differences {
						t.Errorf("%s:%d: %q: %s: %s%s", o.File, turn.Line, visible.Cut(turn.User, 60), d.Kind, d.Message, again)
					}
				}
				for _, d := range o.Differences {
					t.Errorf("%s:%d: %s: %s%s", o.File, o.Line, d.Kind, d.Message, again)
				}
			}
		})
	}
}
