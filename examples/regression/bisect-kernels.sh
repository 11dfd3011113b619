#!/bin/sh
# Finds the first of Debian's kernels that repeats a lost announcement of an address soon, with
# git bisect in a repository that it makes, with a commit for each kernel.
#   sh examples/regression/bisect-kernels.sh DIRECTORY [SERIES..]
set -eu
directory=${1:?"the new directory is missing"}
shift
[ $# -gt 0 ] || set -- 6.12 6.18 7.2 7.3
spec=$(cd "$(dirname "$0")" && pwd)/lost-add-addr.yaml

mkdir "$directory"
cd "$directory"
# The oldest kernel is the reference: three runs, one for each seed. Status 1 is that it does not meet
# the expectation, as it should be; 4, that a run was invalid, for example because the guest was late.
for attempt in 1 2 3; do
    status=0
    mptcplab run "$spec" --on "qemu:$1" --repeat 3 --out good || status=$?
    [ $status = 4 ] || break
done
[ $status -le 1 ]

git init --quiet kernels
cd kernels
for series in "$@"; do
    echo "$series" >series
    git add series
    git -c user.name=mptcplab -c user.email=mptcplab@localhost commit --quiet --message "Linux $series"
done

# A kernel tree would be built here, and `|| exit 125` would skip what cannot be built.
cat >../step <<EOF
#!/bin/sh
exec mptcplab bisect-step '$spec' --on "qemu:\$(cat series)" \\
    --metric hosts.server.MPTcpExtAddAddrTx --good ../good --out ../steps
EOF
git bisect start --term-old late --term-new soon HEAD "$(git rev-list --max-parents=0 HEAD)"
git bisect run sh ../step
