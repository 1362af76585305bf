// Package pages reads the README and the pages in docs as their readers do, and
// tests them: it types the commands in order, and follows links.
//
// These are commands:
//
//   - In a fenced block without a language, or with console, sh or bash, a line
//     that begins with "$ " is typed. A backslash at its end continues it. The
//     lines below are its output.
//   - "^C" is Ctrl-C to the command that runs in that terminal. The lines below
//     are printed then.
//   - A block is typed in the terminal that the paragraph above it names ("In
//     terminal 2:", or 终端 2), otherwise in the terminal of the block before; or in a new
//     terminal, if a command runs there that stays. A new terminal has no
//     variables of others.
//   - Each page begins with a fresh copy of the repository, in which
//     bin/idworker is built, and bin is in the PATH.
//
// The output must match the page where it is stable, see [Matches]. A line "…"
// stands for any lines, and "…" in a line for any text. Where the page shows no
// output, any output passes. A command must succeed, unless the page shows the
// error.
//
// Comments in a page, on a line of their own above a block:
//
//	<!-- not run: why; tested in testing/e2e/some_test.go -->
//	<!-- page not run: why; … -->    for all blocks of the page
//	<!-- run in: mysql -->           the administrator of MariaDB or MySQL at 127.0.0.1:3306
//	                                 executes the block
//	<!-- run in: postgres -->        that of PostgreSQL at 127.0.0.1:5432 does
//	<!-- run in: mysql and postgres -->  both do
//	<!-- file: hub.conf -->          the block is a file of this name, which the reader makes
//	<!-- figures vary -->            numbers in the output are others each time
//
// A page in docs/zh, and README.zh-CN.md, has the commands of its English
// original.
//
// A "not run" comment names a file of the repository that runs or tests the
// commands instead. A page with a command that moves its ports is typed a second
// time, with this command, while all usual ports are taken.
package pages
