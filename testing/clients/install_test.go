package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/idworker/idworker/testing/deps"
	"github.com/idworker/idworker/testing/freeport"
	"github.com/idworker/idworker/testing/process"
	"github.com/idworker/idworker/testing/tier"
)

// TestInstall: the commands on the pages install the clients of a clone into an
// empty project, and a program there takes an ID of a running idworker, and
// another without one. It needs the packages that registries have on the day.
func TestInstall(t *testing.T) {
	tier.Release(t)
	deps.TypeScript.Require(t)
	deps.Python.Require(t)
	deps.JDK.Require(t)
	deps.Maven.Require(t)
	dir := t.TempDir()
	clone := filepath.Join(dir, "idworker")
	shell(t, "../..", "mkdir "+clone+" && git ls-files -z --cached --others --exclude-standard | tar -c --null --files-from=- --ignore-failed-read | tar -x -C "+clone)
	shell(t, clone, "make clients")
	url := serve(t, dir)

	for _, c := range []struct {
		language, before string // before the page's commands
		program, code    string
		run              string
	}{
		{"go", "cat > go.mod <<< 'module example.com/application'", "main.go", goProgram, "go run . " + url},
		{"typescript", "", "main.mjs", nodeProgram, "node main.mjs " + url},
		{"python", "python3 -m venv venv; . venv/bin/activate", "main.py", pythonProgram, "venv/bin/python main.py " + url},
		{"java", "", "Main.java", javaProgram, "java -cp 'lib/*' Main.java " + url},
	} {
		t.Run(c.language, func(t *testing.T) {
			application := filepath.Join(dir, "application")
			if err := os.RemoveAll(application); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(application, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(application, c.program), c.code)
			install := strings.ReplaceAll(installBlock(t, c.language), "/path/to/idworker", clone)
			if c.language == "java" {
				write(t, filepath.Join(application, "pom.xml"), strings.ReplaceAll(javaProject, "DEPENDENCY", install))
				install = "mvn -B -ntp -q dependency:copy-dependencies -DoutputDirectory=lib"
			}
			shell(t, application, c.before+"\n"+install)
			if got := shell(t, application, c.run); got != "1\ntrue\n" {
				t.Errorf("the program prints %q, want its first ID in memory, and whether it got one of idworker", got)
			}
		})
	}
}

// installBlock is the block of a page that installs a client from a clone beside
// the application, without the commands that were executed already. Java's is a
// dependency.
func installBlock(t *testing.T, language string) string {
	t.Helper()
	page := language
	if language == "go" {
		page = "callers"
	}
	text, err := os.ReadFile("../../docs/" + page + ".md")
	if err != nil {
		t.Fatal(err)
	}
	pattern := "(?s)```console\n([^`]*idworker/dist/clients/[^`]*)```"
	switch language {
	case "go":
		pattern = "(?s)```console\n([^`]*go mod edit[^`]*)```"
	case "java":
		pattern = "(?s)```xml\n(.*?-SNAPSHOT.*?)```"
	}
	found := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
	if found == nil {
		t.Fatalf("docs/%s.md does not say how to install the client from a clone", page)
	}
	if language == "java" {
		return found[1]
	}
	var commands []string
	for line := range strings.Lines(found[1]) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if ok && command != "make clients" && !strings.HasPrefix(command, "cd ") {
			commands = append(commands, command)
		}
	}
	return strings.Join(commands, "\n")
}

// serve starts an idworker with the tag order.
func serve(t *testing.T, dir string) (url string) {
	t.Helper()
	binary, err := process.Build(dir, "idworker-binary", process.Command)
	if err != nil {
		t.Fatal(err)
	}
	address := freeport.Address(t)
	program := process.Program{Binary: binary, Dir: dir}
	program.Start(t, "serve", "--listen", address, "--data", filepath.Join(dir, "data")).AwaitLog(t, "\tserving\t")
	if _, err := program.Run("tag", "create", "order", "--server", "nats://"+address); err != nil {
		t.Fatal(err)
	}
	return "nats://" + address
}

// shell runs commands in a folder, and returns what they print.
func shell(t *testing.T, dir, commands string) string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Program{Binary: bash, Dir: dir, Within: patience}.Run("-e", "-u", "-o", "pipefail", "-c", commands)
	if err != nil {
		t.Fatal(err)
	}
	return p.Stdout.String()
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const goProgram = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/idworker/idworker/messages"
)

func main() {
	nc, err := nats.Connect(os.Args[1])
	if err != nil {
		panic(err)
	}
	id, err := messages.NewClient(nc, messages.DefaultPrefix).Next(context.Background(), "order")
	if err != nil {
		panic(err)
	}
	fmt.Println(1) // package idworkertest is for tests
	fmt.Println(id > 0)
}
`

const nodeProgram = `import { Idworker } from "@idworker/client"
import { InMemoryIdworker } from "@idworker/client/testing"
import { connect } from "@nats-io/transport-node"

console.log(String(await new InMemoryIdworker().next("order")))
const nc = await connect({ servers: process.argv[2] })
console.log((await new Idworker(nc).next("order")) > 0n)
await nc.close()
`

const pythonProgram = `import sys

from idworker_client import SyncIdworker
from idworker_client.testing import InMemorySyncIdworker

print(InMemorySyncIdworker().next("order"))
print(str(SyncIdworker(sys.argv[1]).next("order") > 0).lower())
`

const javaProgram = `import io.github.idworker.IdClient;
import io.github.idworker.IdClientOptions;

public class Main {
    public static void main(String[] args) {
        System.out.println(IdClient.inMemory().next("order"));
        try (IdClient client = IdClient.connect(IdClientOptions.DEFAULTS.withServers(args[0]))) {
            System.out.println(client.next("order") > 0);
        }
    }
}
`

const javaProject = `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.example</groupId>
  <artifactId>application</artifactId>
  <version>1</version>
  <dependencies>
DEPENDENCY
  </dependencies>
</project>
`
