// Package option applies the functional options of constructors.
package option

import "fmt"

// Apply applies options in order. It returns an error if one is nil.
func Apply[T any, O ~func(T)](to T, opts []O) error {
	for i, o := range opts {
		if o == nil {
			return fmt.Errorf("option %d is nil", i)
		}
		o(to)
	}
	return nil
}
