package cli

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a flag that is a number of bytes, such as 32MiB.
type size int64

func (s *size) Set(text string) error {
	unit := int64(1)
	for i, name := range []string{"KiB", "MiB", "GiB"} {
		if number, ok := strings.CutSuffix(text, name); ok {
			text, unit = strings.TrimSpace(number), 1<<(10*(i+1))
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return errors.New("give a number of bytes such as 500KiB, 32MiB or 1GiB")
	}
	*s = size(n * unit)
	return nil
}

func (s *size) String() string {
	if *s == 0 {
		return ""
	}
	n, unit := int64(*s), ""
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if n%1024 != 0 {
			break
		}
		n, unit = n/1024, next
	}
	return fmt.Sprint(n, unit)
}

func (*size) Type() string { return "SIZE" }
