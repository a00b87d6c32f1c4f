.stream "random 1044 3"
.isa random
.hbm 536
.arg A0 bfloat16[48] @0x4
.arg A1 float8_e4m3fnuz[48] @0x68
.arg A2 int8[384] @0x98
.result R0 bfloat16[48] @0x4
.result R1 float8_e4m3fnuz[48] @0x68
.result R2 int8[384] @0x98
fill_b2 a0=107
loop i2 in 0..3 {
  loop v2 in 1..5 {
    op0 a0=2*(i2 % 3), a1=i2 + 20, a2=136, a3=4, a4=368, a5=1, a6=2
    op2 rows=4, a1=6*v2 - 2*((i2 + 1) % 3) + 12
    op0 a0=2, a1=(i2 % 3) + 11, a2=113, a3=v2, a4=-8*((v2 + 1) % 3) + 200, a5=0, a6=3
  }
}
op2 rows=3, a1=54
op0 a0=2, a1=19, a2=143, a3=0, a4=384, a5=0, a6=3
dump_b0 a0=22
dump_b2 a0=131
