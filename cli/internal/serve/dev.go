package serve

import (
	"os/exec"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/agentarbor/arbor/cli/internal/factory"
)

// devKeeps is how much memory dev gives to requests as they were sent, in bytes.
const devKeeps = 32 << 20

// DevCommand makes the command dev.
func DevCommand(f *factory.Factory) *cobra.Command {
	how, shut := &options{keep: devKeeps}, false
	cmd := f.WithPath(&cobra.Command{
		Short: "Serve the tree while you work on it, and open its page in a browser",
		Long: `Serves the tree as serve does, keeps the last requests to models, and opens the page in
a browser. When you save files of the tree, the next turn uses them, and a running turn
ends with the old ones. If the files have problems, the command and the page report
them, and the tree stays as it was.

Without a terminal or a display, no browser is opened; standard error has the address.`,
	}, "dev", 0, func(cmd *cobra.Command, path string, _ []string) error {
		how.open = !shut
		return serve(cmd.Context(), f, path, how)
	})
	serveFlags(f, cmd.Flags(), how)
	cmd.Flags().BoolVar(&shut, "no-open", false, "do not open a browser")
	return cmd
}

// openPage opens an address in a browser, if that is wanted, somebody is there, and has one.
func openPage(f *factory.Factory, how *options, address string) {
	if !how.open || !factory.IsTerminal(f.Stderr) {
		return
	}
	var words []string
	switch runtime.GOOS {
	case "windows":
		words = []string{"rundll32", "url.dll,FileProtocolHandler"}
	case "darwin":
		words = []string{"open"}
	default:
		if f.Getenv("DISPLAY") == "" && f.Getenv("WAYLAND_DISPLAY") == "" {
			return
		}
		words = []string{"xdg-open"}
	}
	cmd := exec.Command(words[0], append(words[1:], address)...)
	apart(cmd)
	if err := cmd.Start(); err != nil {
		f.Say("no browser was opened: %s", err)
		return
	}
	go func() {
		if err := cmd.Wait(); err != nil {
			f.Say("no browser was opened: %s: %s", words[0], err)
		}
	}()
}
