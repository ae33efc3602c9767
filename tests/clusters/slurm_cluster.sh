# A Slurm of one controller and two nodes on this machine, for the tests that source this file. Needs root, and Debian's
# slurm-wlm and munge. All it writes is in $CLUSTER; `stop_slurm` ends every daemon that `start_slurm` started.
#
#   CLUSTER=$(mktemp -d); . slurm_cluster.sh; start_slurm; trap stop_slurm EXIT

slurm_pids=()

# Ports that nobody listens on.
free_ports() {
  python3 - "$1" <<'PYTHON'
import socket, sys
sockets = [socket.socket() for _ in range(int(sys.argv[1]))]
for one in sockets: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in sockets))
PYTHON
}

wait_until() {  # wait_until SECONDS COMMAND...
  local until=$((SECONDS + $1)); shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS < until)) || { echo "gave up waiting for: $*" >&2; return 1; }
    sleep 0.2
  done
}

start_slurm() {
  local controller first second
  read -r controller first second < <(free_ports 3)
  mkdir -p "$CLUSTER"/{state,spool-n1,spool-n2,munge}
  chmod 0700 "$CLUSTER/munge"
  head -c 1024 /dev/urandom > "$CLUSTER/munge/key"; chmod 0400 "$CLUSTER/munge/key"
  munged --force --foreground --key-file="$CLUSTER/munge/key" --socket="$CLUSTER/munge.socket" \
    --pid-file="$CLUSTER/munge/pid" --log-file="$CLUSTER/munge/log" --seed-file="$CLUSTER/munge/seed" \
    > "$CLUSTER/munged.out" 2>&1 &
  slurm_pids+=($!)
  wait_until 20 test -S "$CLUSTER/munge.socket"
  local host; host=$(hostname -s)
  cat > "$CLUSTER/slurm.conf" <<CONF
ClusterName=trireme
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$controller
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$CLUSTER/munge.socket
CryptoType=crypto/munge
StateSaveLocation=$CLUSTER/state
SlurmdSpoolDir=$CLUSTER/spool-%n
SlurmctldPidFile=$CLUSTER/slurmctld.pid
SlurmdPidFile=$CLUSTER/slurmd-%n.pid
SlurmctldLogFile=$CLUSTER/slurmctld.log
SlurmdLogFile=$CLUSTER/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdTimeout=60
KillWait=20
OverTimeLimit=0
SchedulerParameters=batch_sched_delay=0,sched_interval=1
SlurmdParameters=config_overrides
JobRequeue=1
MinJobAge=300
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$first CPUs=4 RealMemory=1000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$second CPUs=4 RealMemory=1000
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
CONF
  export SLURM_CONF="$CLUSTER/slurm.conf"
  slurmctld -D -f "$SLURM_CONF" > "$CLUSTER/slurmctld.out" 2>&1 &
  slurm_pids+=($!)
  wait_until 20 scontrol ping
  local node
  for node in n1 n2; do
    slurmd -D -N "$node" -f "$SLURM_CONF" > "$CLUSTER/slurmd-$node.out" 2>&1 &
    slurm_pids+=($!)
  done
  wait_until 30 sh -c 'test "$(sinfo -h -o %t | sort -u)" = idle'
}

stop_slurm() {
  [[ -n ${SLURM_CONF-} ]] && scancel --state=RUNNING --state=PENDING --user=root 2>/dev/null
  local pid
  for pid in "${slurm_pids[@]}"; do kill "$pid" 2>/dev/null; done
  for pid in "${slurm_pids[@]}"; do wait "$pid" 2>/dev/null; done
  slurm_pids=()
}
